"""Memory of Gluon models beside MXNet's own counter, in an interpreter that has MXNet.

Usage: python mxnet_memory.py DIRECTORY MODEL... Writes MODEL.jsonl and MODEL.counted.json: by how
many bytes the allocator's counter rises in a forward pass of the second iteration, and in the first
update of the weights. With estimated:MODEL it trains nothing, and writes the first file alone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tbd_models import mxnet
from tbd_models.registry import find
from tbd_models.settings import Settings

mxnet.prepare(Settings(1, execution="eager"))

import mxnet as mx  # noqa: E402
from mxnet import autograd, profiler  # noqa: E402
from mxnet.gluon import HybridBlock, Trainer, model_zoo, nn  # noqa: E402

from tbd_models.instrument.memory_mxnet import Training, estimate  # noqa: E402
from tbd_models.mxnet.trainer import TRAINER  # noqa: E402


def dense(units: int, inputs: int, **more: Any) -> Any:
    return nn.Dense(units, use_bias=False, in_units=inputs, flatten=False, **more)


def chained(*blocks: Any) -> Any:
    model = nn.HybridSequential()
    model.add(*blocks)
    return model


def cnn() -> Any:
    shape = {"kernel_size": 3, "padding": 1, "use_bias": False, "activation": "relu"}
    first = nn.Conv2D(16, in_channels=3, **shape)
    return chained(
        first, nn.Conv2D(32, strides=2, in_channels=16, **shape), nn.Dense(10, in_units=8192)
    )


def mlp() -> Any:
    return chained(dense(256, 256), nn.Activation("sigmoid"), dense(10, 256))


class Transformer(HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.merge = (dense(64, 64) for _ in range(4))
        self.norm = nn.LayerNorm(in_channels=64)
        self.inner = chained(dense(256, 64, activation="relu"), dense(64, 256))
        self.scores = dense(10, 64)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        def split(y: Any) -> Any:
            y = F.transpose(F.reshape(y, shape=(0, 0, -4, 4, -1)), axes=(0, 2, 1, 3))
            return F.reshape(y, shape=(-3, 0, 0))

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        weights = F.softmax(F.batch_dot(query, key, transpose_b=True) / 4, axis=-1)
        mean = F.reshape(F.batch_dot(weights, value), shape=(-4, -1, 4, 0, 0))
        mean = F.reshape(F.transpose(mean, axes=(0, 2, 1, 3)), shape=(0, 0, -3))
        y = self.norm(x + self.merge(mean))
        return self.scores(F.mean(y + self.inner(y), axis=1))


def counted() -> int:
    """Return the bytes that the allocator has given out."""
    mx.nd.waitall()
    # The counter speaks only when something changes.
    mx.nd.zeros(1).wait_to_read()
    profiler.dump(finished=False)
    values = re.findall(r'"args": \{ "Memory: cpu/0": (\d+)', PROFILE.read_text())
    return int(values[-1])


def rises(forward: Callable[[], Any], update: Callable[[], None]) -> dict[str, int]:
    found = {}
    for iteration in ("first", "second"):
        before = counted()
        with autograd.record():
            loss = forward()
        found[f"forward_{iteration}"] = counted() - before
        loss.backward()
        del loss
        before = counted()
        update()
        found[f"update_{iteration}"] = counted() - before
    return found


def own(
    model: Any, shape: tuple[int, ...], path: Path, *, is_trained: bool
) -> dict[str, int] | None:
    """Write the memory of a model whose loss is the mean of its output."""
    model.initialize()
    given = mx.nd.zeros(shape)
    model(given)
    momentum = {"learning_rate": 0.01, "momentum": 0.9}
    training = Training(model, ["x"], lambda out, _: out.mean(), mx.optimizer.SGD(**momentum))
    estimate(training, {"x": given}, shape[0]).write(path, iterations=2)
    if not is_trained:
        return None
    trainer = Trainer(model.collect_params(), mx.optimizer.SGD(**momentum), kvstore=None)
    return rises(lambda: model(given).mean(), lambda: trainer.step(1))


def of_suite(name: str, path: Path) -> dict[str, int]:
    """Write the memory of a model of the suite."""
    model = find(name)
    build = import_module(f"tbd_models.{name}.mxnet").workload
    trainer = TRAINER(build, model.variant(None, "mxnet").small, Settings(4, execution="eager"))
    trainer.record_memory(path, 2)
    batch, work = trainer._batches(0), trainer.workload
    return rises(lambda: work.loss(work.forward(batch), batch), lambda: trainer._trainer.step(1))


OWN: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (8, 256)),
    "cnn": (cnn, (4, 3, 32, 32)),
    "transformer": (Transformer, (4, 32, 64)),
    "resnet50": (model_zoo.vision.resnet50_v1, (2, 3, 224, 224)),
}


def main(directory: Path, names: list[str]) -> None:
    profiler.set_config(profile_memory=True, filename=str(PROFILE))
    profiler.set_state("run")
    for asked in names:
        name = asked.removeprefix("estimated:")
        path = directory / f"{name}.jsonl"
        if name in OWN:
            build, shape = OWN[name]
            found = own(build(), shape, path, is_trained=name == asked)
        else:
            found = of_suite(name.removeprefix("suite_"), path)
        if found is not None:
            (directory / f"{name}.counted.json").write_text(json.dumps(found))


if __name__ == "__main__":
    PROFILE = Path(sys.argv[1]) / "profile.json"
    main(Path(sys.argv[1]), sys.argv[2:])
