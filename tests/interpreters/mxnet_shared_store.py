"""Train one layer on this rank of two over MXNet's shared store, and print what came of it."""

from __future__ import annotations

import json

from tbd_models import mxnet
from tbd_models.settings import Settings

SETTINGS = Settings(1, marked=True, scheme="dist_sync")
mxnet.prepare(SETTINGS)

import mxnet as mx  # noqa: E402
from mxnet import autograd, gluon  # noqa: E402

from tbd_models.instrument.mxnet import parameter_layers  # noqa: E402
from tbd_models.mxnet.shared_store import SharedStore, rank  # noqa: E402


class Texts:
    """Marks as a list of texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def push(self, text: str) -> None:
        self.texts.append(text)

    def pop(self) -> None:
        pass


shared, texts = SharedStore(), Texts()
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(1, in_units=2))
net.initialize(mx.init.One())
parameters = list(net.collect_params().values())
layers = parameter_layers(net)
shared.mark({key: layers[p.name] for key, p in enumerate(parameters)}, texts)
trainer = gluon.Trainer(parameters, "sgd", {"learning_rate": 0.5}, kvstore=shared.store)
shared.wait_for_all()
weights = []
for _ in range(2):
    with autograd.record():
        # The gradient of the weights is (1, 1) on one rank and (3, 3) on the other, 2 in the mean.
        loss = net(mx.nd.ones((1, 2)) * (1 + 2 * rank(SETTINGS))).sum()
    loss.backward()
    trainer.step(2)
    weights.append(net[0].weight.data().asnumpy().tolist())
shared.close()
print(json.dumps({"weights": weights, "texts": texts.texts}))
