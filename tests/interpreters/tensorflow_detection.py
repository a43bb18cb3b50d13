"""What TensorFlow makes of arrays of PyTorch: run in an interpreter that has TensorFlow.

Usage: python tensorflow_detection.py MODEL DIRECTORY

The arrays are in the directory, and what TensorFlow makes of them is left there.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tbd_models.registry import find
from tbd_models.tensorflow import boxes

CHANNELS = 16  # of the small Mask R-CNN's pyramid
KINDS = ("kernel", "bias", "gamma", "beta", "share")

# From the names of PyTorch's parameters to those of Keras' weights.
RENAMED = {
    "efficientdet": (
        (r"^backbone\.", ""),
        (r"stages\.(\d+)\.(\d+)\.", r"stage\1_block\2_"),
        (r"gate\.1\.", "reduce."),
        (r"gate\.3\.", "expand."),
        (r"excite\.", "excite_"),
        (r"^(stem|p6|.*(?:expand|depthwise|project))\.0\.", r"\1_conv."),
        (r"^(stem|p6|.*(?:expand|depthwise|project))\.1\.", r"\1_bn."),
        (r"up\.0\.", "up1."),
        (r"up\.1\.", "up2."),
        (r"up\.2\.", "up3."),
        (r"up\.3\.", "up4."),
        (r"pyramids\.(\d+)\.(?:down\.)?(\w+)\.", r"pyramid\1_\2."),
        (r"pyramid(\d+)_(\d)\.", r"pyramid\1_down\2."),
        (r"resample\.(\d)\.0\.", r"input\1_conv."),
        (r"resample\.(\d)\.1\.", r"input\1_bn."),
        (r"^(pyramid\w+)\.weight$", r"\1_fusion.share"),
        (r"^(pyramid\w+)\.(input\d_)?(conv|bn)\.", r"\1_\2\3."),
        (r"(\w+)_head\.convolutions\.(\d)\.", r"\1_conv\2."),
        (r"(\w+)_head\.norms\.(\d)\.(\d)\.", r"\1_level\3_bn\2."),
        (r"(\w+)_head\.predict\.", r"\1_predict."),
        (r"\.0\.weight$", ".depthwise_kernel"),
        (r"\.1\.weight$", ".pointwise_kernel"),
        (r"\.1\.bias$", ".bias"),
    ),
    "maskrcnn": (
        (r"^backbone\.body\.", ""),
        (r"stages\.(\d+)\.(\d+)\.", r"stage\1_block\2_"),
        (r"downsample\.0\.", "downsample_conv."),
        (r"fpn\.(\w+)\.(\d)\.", r"fpn_\1\2."),
        (r"box_head\.fc\.0\.", "box_fc0."),
        (r"box_head\.fc\.2\.", "box_fc1."),
        (r"mask_head\.mask\.", "mask_score."),
        (r"mask_head\.convolutions\.([0246])\.", lambda m: f"mask_conv{int(m[1]) // 2}."),
        (r"^(\w+)_head\.", r"\1_"),
        (r"^rpn\.", "rpn_"),
    ),
}


def keras_name(model: str, name: str) -> str:
    """Return the path of the Keras weight that is a parameter of PyTorch."""
    for pattern, replacement in RENAMED[model]:
        name = re.sub(pattern, replacement, name)
    layer, _, kind = name.rpartition(".")
    if kind == "weight":
        kind = "gamma" if re.search(r"bn\d?$", layer) else "kernel"
    elif kind == "bias" and re.search(r"bn\d?$", layer):
        kind = "beta"
    return f"{layer}/{kind}"


def load_weights(model: Any, name: str, directory: Path) -> None:
    """Give a model the weights of PyTorch, every one of them."""
    kept = {weight.path: weight for weight in model.weights if weight.path.endswith(KINDS)}
    with np.load(directory / "weights.npz") as weights:
        for parameter, value in weights.items():
            weight = kept.pop(keras_name(name, parameter))
            weight.assign(in_layout(value, weight))
    if kept:
        raise AssertionError(f"not in PyTorch: {', '.join(kept)}")


def in_layout(value: Any, weight: Any) -> Any:
    """Return a parameter of PyTorch in the layout of Keras: outputs last, then inputs."""
    if value.ndim == 4:
        depthwise = weight.path.endswith("depthwise_kernel") or "depthwise_conv" in weight.path
        return value.transpose((2, 3, 0, 1) if depthwise else (2, 3, 1, 0))
    if "box_fc0/kernel" in weight.path:  # of flattened features, whose channels come last here
        side = math.isqrt(value.shape[1] // CHANNELS)
        value = value.reshape(-1, CHANNELS, side, side).transpose(0, 2, 3, 1)
        return value.reshape(len(value), -1).T
    return value.T


def tensors(work: Any, path: Path) -> dict[str, Any]:
    """Return a batch that PyTorch left."""
    with np.load(path) as batch:
        return {key: tf.constant(value) for key, value in work.convert(dict(batch)).items()}


def efficientdet(directory: Path) -> None:
    """Run the small network with the weights and the batch of PyTorch."""
    from tbd_models.efficientdet.tensorflow import workload

    work = workload(replace(find("efficientdet").variant(None).small, drop=0.0))
    (turn,) = work.turns
    load_weights(work.model, "efficientdet", directory)
    batch = tensors(work, directory / "batch.npz")
    with tf.GradientTape() as tape:
        score, delta = found = turn.forward(batch)
        loss = turn.loss(found, batch)
    gradients = tape.gradient(loss, [weight.value for weight in turn.weights()])
    np.savez(
        directory / "tensorflow.npz",
        score=score,
        delta=delta,
        loss=loss,
        gradient=tf.linalg.global_norm(gradients),
    )


def maskrcnn(directory: Path) -> None:
    """Run the parts of the small network with the weights, the batch and the boxes of PyTorch."""
    from tbd_models.maskrcnn.rpn_tensorflow import Term
    from tbd_models.maskrcnn.tensorflow import detection_loss, workload

    work = workload(find("maskrcnn").variant(None).small)
    load_weights(work.model, "maskrcnn", directory)
    batch = tensors(work, directory / "batch.npz")
    layer = work.model.get_layer
    levels = range(5)
    wanted = {
        **{f"score{n}": layer(f"rpn_level{n}_objectness").output for n in levels},
        **{f"delta{n}": layer(f"rpn_level{n}_delta").output for n in levels},
        "rows": layer("table").output,
    }
    found = keras.Model(work.model.inputs, wanted)(batch, training=True)
    scores = [found[f"score{n}"] for n in levels]
    deltas = [found[f"delta{n}"] for n in levels]
    with np.load(directory / "regions.npz") as given:
        regions = {name: tf.constant(value) for name, value in given.items()}
    found["proposals"], found["valid"] = layer("proposals")(
        batch["image"],
        [regions[f"drawn_score{n}"] for n in levels],
        [regions[f"drawn_delta{n}"] for n in levels],
    )
    with tf.GradientTape() as tape:
        tape.watch(found["rows"])
        box, label = regions["boxes"], regions["label"]
        x = layer("box_flatten")(layer("box_align")(batch["image"], found["rows"], box))
        x = layer("box_fc1")(layer("box_fc0")(x))
        found["class"] = layer("box_score")(x)
        found["box"] = layer("box_of_class")(layer("box_deltas")(layer("box_delta")(x)), label)
        x = layer("mask_align")(batch["image"], found["rows"], box)
        for number in range(4):
            x = layer(f"mask_conv{number}")(x)
        x = layer("mask_score")(layer("mask_upsample")(x))
        found["mask"] = layer("mask_of_class")(x, label)
        found["inside"] = layer("mask_targets")(batch["mask"], box, regions["matched"])
        used, positive = regions["used"], regions["positive"]
        terms = {
            "objectness": Term(scores[4], regions["objectness"], regions["anchors_used"]),
            "anchor_box": Term(deltas[4], regions["anchor_delta"], regions["anchors_positive"]),
            "class": Term(found["class"], label, used),
            "box": Term(found["box"], regions["delta"], positive),
            "mask": Term(found["mask"], found["inside"], positive),
        }
        found["loss"] = detection_loss(terms, batch)
    found["row_gradient"] = tf.convert_to_tensor(tape.gradient(found["loss"], found["rows"]))
    np.savez(directory / "tensorflow.npz", **found)


def box_functions(directory: Path) -> None:
    """Compute overlaps, targets and suppression of the boxes that PyTorch left."""
    with np.load(directory / "boxes.npz") as given:
        proposals, objects = tf.constant(given["proposals"]), tf.constant(given["objects"])
        present, deltas = tf.constant(given["present"]), tf.constant(given["deltas"])
        draw = tf.constant(given["draw"])
    overlap = boxes.iou(proposals, objects)
    found: dict[str, Any] = {"overlap": overlap}
    for force in (False, True):
        matched, kind = boxes.assign(overlap, present, 0.5, 0.3, force)
        found |= {f"matched_{force}": matched, f"kind_{force}": kind}
    drawn = boxes.sample(kind, draw, 24, 6)
    found |= dict(zip(("index", "positive", "used"), drawn, strict=True))
    found["decoded"] = boxes.clip(boxes.decode(deltas, proposals, (10.0, 5.0)), 90, 120)
    found["encoded"] = boxes.encode(
        boxes.take(objects, found["matched_True"]), proposals, (10.0, 5.0)
    )
    for threshold in (0.3, 0.7):
        kept = tf.function(boxes.keep_mask)(proposals, overlap[..., 0] >= 0, threshold)
        found[f"kept_{threshold}"] = kept
    found["anchors"] = boxes.grid_anchors(3, 5, 8, [16.0, 20.0], [0.5, 1.0, 2.0])
    np.savez(directory / "boxes_tensorflow.npz", **found)


def main(name: str, directory: Path) -> None:
    """Answer what was left in a directory."""
    box_functions(directory)
    globals()[name](directory)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
