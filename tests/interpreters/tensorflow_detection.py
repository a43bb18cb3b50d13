"""What TensorFlow makes of arrays of PyTorch: run in an interpreter that has TensorFlow.

Usage: python tensorflow_detection.py MODEL DIRECTORY

The arrays are in the directory, and what TensorFlow makes of them is left there.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tbd_models.registry import find
from tbd_models.tensorflow import boxes

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
    found = {weight.path: weight for weight in model.trainable_weights}
    with np.load(directory / "weights.npz") as weights:
        for parameter, value in weights.items():
            weight = found.pop(keras_name(name, parameter))
            weight.assign(in_layout(value, weight))
    if found:
        raise AssertionError(f"not in PyTorch: {', '.join(found)}")


def in_layout(value: Any, weight: Any) -> Any:
    """Return a parameter of PyTorch in the layout of Keras: outputs last, then inputs."""
    if value.ndim == 4:
        value = value.transpose(2, 3, 1, 0)
        if "depthwise" in weight.path and value.shape[2] == 1:
            value = value.swapaxes(2, 3)
    elif value.ndim == 2:
        value = value.T
    return value


def efficientdet(directory: Path) -> None:
    """Run the small network with the weights and the batch of PyTorch."""
    from tbd_models.efficientdet.tensorflow import workload

    work = workload(replace(find("efficientdet").variant(None).small, drop=0.0))
    (turn,) = work.turns
    load_weights(work.model, "efficientdet", directory)
    with np.load(directory / "batch.npz") as batch:
        tensors = {key: tf.constant(value) for key, value in work.convert(dict(batch)).items()}
    with tf.GradientTape() as tape:
        score, delta = found = turn.forward(tensors)
        loss = turn.loss(found, tensors)
    gradients = tape.gradient(loss, [weight.value for weight in turn.weights()])
    np.savez(
        directory / "tensorflow.npz",
        score=score,
        delta=delta,
        loss=loss,
        gradient=tf.linalg.global_norm(gradients),
    )


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
