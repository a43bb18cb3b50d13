"""Train a network of Gluon with its Trainer."""

import mxnet as mx
from mxnet import autograd, gluon

mx.random.seed(0)
net = gluon.nn.Sequential()
net.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dense(3))
net.initialize()
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
for _ in range(10):
    inputs, labels = mx.nd.random.uniform(shape=(8, 4)), mx.nd.zeros(8)
    with autograd.record():
        loss = loss_function(net(inputs), labels)
    loss.backward()
    trainer.step(8)
mx.nd.waitall()
