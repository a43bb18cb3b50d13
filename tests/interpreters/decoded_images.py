"""Decodes files in TensorFlow or MXNet and prints what was seen, as JSON.

Run in the framework's interpreter: ``python decoded_images.py tensorflow|mxnet``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tbd_models import __main__ as program
from tbd_models import audio, decoded, images
from tbd_models.settings import Settings

FRAMEWORK = sys.argv[1]
import_module(f"tbd_models.{FRAMEWORK}").prepare(Settings(batch_size=2))
SIZE, CLASSES = 32, 5


def settings(workers: int) -> Settings:
    return Settings(batch_size=6, seed=3, input="decode", loader_workers=workers)


def tensorflow() -> dict[str, Any]:
    """Return batches, and the largest difference from crops of whole decoded files."""
    import tensorflow as tf

    from tbd_models.tensorflow.images import decoded_batches

    with_workers, alone = (decoded_batches(SIZE, CLASSES, settings(n)) for n in (2, 0))
    files = sorted(_last_directory().glob("*.jpg"), key=lambda file: int(file.stem))
    equal, differences, labels = True, [], []
    for number in range(3):
        ours, theirs = alone(number), with_workers(number)
        equal &= bool(np.array_equal(ours["image"], theirs["image"]))
        labels += ours["label"].numpy().tolist()
        for row, image in enumerate(ours["image"].numpy()):
            at = 6 * number + row
            whole = tf.io.decode_jpeg(files[at].read_bytes(), channels=3).numpy()
            left, top, right, bottom = map(int, images.crop(*images.SIZE, 3, at))
            expected = _resized(whole[top:bottom, left:right].astype(float))
            differences.append(float(np.abs((image + 1) * 127.5 - expected).mean()))
    files[20].unlink()
    return {
        "equal": equal,
        "shape": list(ours["image"].shape),
        "labels": labels,
        "difference": max(differences),
        "vanished": _error(lambda: [alone(number) for number in range(2)]),
    }


def _resized(pixels: Any) -> Any:
    # Bilinear, between the centres of pixels.
    for axis in (0, 1):
        extent = pixels.shape[axis]
        at = np.clip((np.arange(SIZE) + 0.5) * extent / SIZE - 0.5, 0, extent - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape([-1 if n == axis else 1 for n in range(3)])
        after = np.minimum(low + 1, extent - 1)
        pixels = pixels.take(low, axis) * (1 - share) + pixels.take(after, axis) * share
    return pixels


def mxnet() -> dict[str, Any]:
    """Return whether batches are the samples in order, and the report of a run on speech."""
    from tbd_models.mxnet.loader import decoded_batches

    kinds = {"jpg": images.decoded(SIZE, CLASSES), "wav": audio.decoded(34, 41, CLASSES, 7)}
    found: dict[str, Any] = {}
    for kind, write in kinds.items():
        with tempfile.TemporaryDirectory() as directory:
            samples = write(Path(directory), 3)
            equal = True
            loaders = [decoded_batches(write, settings(workers)) for workers in (0, 2)]
            for number, load in [(n, load) for n in range(3) for load in loaders]:
                for name, values in load(number).items():
                    wanted = [samples[6 * number + row][name] for row in range(6)]
                    equal &= bool(np.array_equal(values, wanted))
        (_last_directory() / f"20.{kind}").unlink()
        # Workers are ahead, so the file is missed when its turn comes again.
        vanished = _error(lambda load=loaders[1]: [load(number) for number in range(16)])
        found[kind] = {"equal": equal, "vanished": vanished}
    return found


def run(model: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        sys.argv = [
            *("tbd_models", "run", model, f"--framework={FRAMEWORK}", "--scale=small"),
            *("--device=cpu", "--input=decode", "--loader-workers=2"),
            *("--warmup=1", "--iterations=3", f"--report={report}"),
        ]
        program.main()
        written: dict[str, Any] = json.loads(report.read_text())
        return written


def _last_directory() -> Path:
    return Path(decoded._alive[-1].name)


def _error(load: Any) -> str | None:
    try:
        load()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


if FRAMEWORK == "tensorflow":
    print(json.dumps(tensorflow()))
else:
    print(json.dumps(mxnet() | {"runs": [run("resnet50"), run("deepspeech2")]}))
