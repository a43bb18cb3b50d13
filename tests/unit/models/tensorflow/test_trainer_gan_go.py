"""WGAN-GP and MiniGo, which the suite has in TensorFlow alone.

They run in an interpreter of their own, which ``TBD_TRACE_TENSORFLOW_PYTHON`` names.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from fast import nightly, slow
from interpreters.run import in_tensorflow
from tbd_models.registry import find
from tbd_models.synthetic import adversarial_batch

every_model = pytest.mark.parametrize("name", [pytest.param("wgan", marks=nightly), "minigo"])


@cache
def cell(name: str, *part: str) -> Any:
    """Return a part of what a model does; one process per part."""
    return json.loads(in_tensorflow("tensorflow_gan_go.py", name, *part).stdout)


def convolution(size: int, kernel: int, inputs: int, outputs: int) -> int:
    return 2 * size**2 * kernel**2 * inputs * outputs


def wgan_by_hand() -> tuple[int, int, int]:
    """Return parameters, forward and training FLOP of an iteration per image of its batch."""
    noise = 2 * 128 * 4 * 4 * 512
    generator, parameters = noise, 128 * 8192 + 8192
    size, width = 4, 512
    for outputs in (512, 256, 128, 64):
        size *= 2  # before all three convolutions of a block
        generator += convolution(size, 1, width, outputs) + convolution(size, 3, width, outputs)
        generator += convolution(size, 3, outputs, outputs)
        parameters += width * outputs + outputs + 9 * width * outputs
        parameters += 9 * outputs**2 + outputs + 2 * width + 2 * outputs
        width = outputs
    generator += convolution(64, 3, 64, 3)
    parameters += 2 * 64 + 9 * 64 * 3 + 3

    first = convolution(64, 3, 3, 64)
    critic = first
    parameters += 9 * 3 * 64 + 64
    for outputs in (128, 256, 512, 512):
        # The shortcut is halved before its convolution, the rest after both.
        shortcut, second = convolution(size // 2, 1, width, outputs), 9 * width * outputs
        last_block = shortcut + 2 * size**2 * second
        critic += convolution(size, 3, width, width) + last_block
        parameters += width * outputs + outputs + 9 * width**2 + second + outputs + 4 * width
        size, width = size // 2, outputs
    score = 2 * 8192
    critic += score
    parameters += 8192 + 1
    unmixed = last_block + score  # the slope at a mixture does not depend on what these put out

    forward = generator + 3 * critic - unmixed
    scores = 2 * (2 * critic - first)  # of real and of made images
    slope = critic  # by the image alone
    # What led to the slope once more, both by the slope and by the weights; above the score is 1.
    twice = 2 * critic - score
    activations = 2 * (critic - unmixed) - first  # the slope depends on what was normalized
    critic_turn = forward + scores + slope + twice + activations
    generator_forward = generator + critic
    generator_turn = generator_forward + critic + 2 * generator - noise
    return (
        parameters,
        5 * forward + generator_forward,
        5 * critic_turn + generator_turn,
    )


def test_wgan_by_hand() -> None:
    variant = find("wgan").variant(None)
    found = (variant.parameters, variant.forward_flop, variant.training_flop)
    assert found == wgan_by_hand()


@pytest.mark.parametrize(
    ("variant", "blocks", "width", "hidden"),
    [("mlperf-9x9", 9, 32, 64), ("9x9-20x128", 20, 128, 256), ("selfplay", 9, 32, 64)],
)
def test_minigo_by_hand(variant: str, blocks: int, width: int, hidden: int) -> None:
    first = convolution(9, 3, 17, width)
    forward = first + 2 * blocks * convolution(9, 3, width, width)
    forward += convolution(9, 1, width, 2) + 2 * (2 * 81) * 82
    forward += convolution(9, 1, width, 1) + 2 * 81 * hidden + 2 * hidden
    scale_and_offset = 2 * width
    parameters = 9 * 17 * width + width + scale_and_offset
    parameters += 2 * blocks * (9 * width**2 + width + scale_and_offset)
    parameters += 2 * width + 2 + 2 * 81 * 82 + 82  # the heads are normalized without them
    parameters += width + 1 + 81 * hidden + hidden + hidden + 1
    known = find("minigo").variant(variant)
    assert known.parameters == parameters
    assert known.forward_flop == forward
    assert known.training_flop == 3 * forward - first


def test_pictures_and_random_numbers() -> None:
    batch = adversarial_batch(200, 16, 8, np.random.default_rng(0))
    assert {key: value.shape for key, value in batch.items()} == {
        "image": (200, 3, 16, 16),
        "noise": (200, 8),
        "mix": (200, 1, 1, 1),
    }
    assert {value.dtype for value in batch.values()} == {np.dtype(np.float32)}
    image = batch["image"]
    assert -1 <= image.min() < -0.9
    assert 0.5 < image.max() <= 1
    # A disc is somewhere else, and of another colour, in every picture; its edge is soft.
    assert len({tuple(np.argwhere(p[0] == p[0].max())[0]) for p in image}) > 20
    assert image.max((2, 3)).std(0).min() > 0.1
    # The steepest place of 2 exp(-20 x²) is 0.158 from its middle, where it falls by 7.67 per 1.
    assert 0.3 < np.abs(np.diff(image, axis=-1)).max() < 7.67 / 15
    assert batch["mix"].min() >= 0
    assert 0.4 < batch["mix"].mean() < 0.6
    assert abs(float(batch["noise"].std()) - 1) < 0.1


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        pytest.param(name, variant.name, marks=() if variant.name == "mlperf-9x9" else nightly)
        for name in ("wgan", "minigo")
        for variant in find(name).variants
    ],
)
def test_size_and_work_are_those_of_the_definition(name: str, variant: str) -> None:
    declared, full = find(name).variant(variant), cell(name, "full", variant)
    assert full["parameters"] == full["trained"] == declared.parameters
    assert full["forward_flop"] == declared.forward_flop
    assert full["forward_flop"] + full["backward_flop"] == declared.training_flop


@pytest.mark.needs("tensorflow")
@every_model
@pytest.mark.parametrize("execution", ["graph", "eager"])
def test_gradients_are_those_without_marks(name: str, execution: str) -> None:
    """For WGAN-GP this holds of gradients of gradients: the penalty is part of the critic's."""
    differences = cell(name, execution)["differences"]
    assert differences == pytest.approx([0] * len(differences), abs=1e-4)


@pytest.mark.needs("tensorflow")
@every_model
@pytest.mark.parametrize("execution", ["graph", "eager"])
def test_every_layer_is_marked_inside_a_phase(name: str, execution: str) -> None:
    layers, ranges = cell(name, "layers"), cell(name, execution)["ranges"]
    phases = {"phase:forward", "phase:loss", "phase:backward"}
    assert {r[0] for r in ranges} == phases
    assert len(layers) > 20
    texts = {r[-1] for r in ranges}
    assert texts >= {f"layer:{layer['name']}" for layer in layers}
    trained = [layer["name"] for layer in layers if layer["backward_flop"]]
    assert trained
    assert texts >= {f"layer_backward:{layer}" for layer in trained}


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize("execution", ["eager", pytest.param("graph", marks=[slow, nightly])])
def test_the_penalty_runs_the_critic_four_ways(execution: str) -> None:
    """Its scores of three kinds of images, and their slope; then backward through all of that."""
    ranges = cell("wgan", execution)["ranges"]
    runs = Counter((r[0], r[-1]) for r in ranges)
    layer, backward = "layer:critic.block1_conv1", "layer_backward:critic.block1_conv1"
    # The generator's turn runs it once each way.
    assert runs["phase:forward", layer] == 3 + 1
    assert runs["phase:forward", backward] == 1
    assert runs["phase:backward", backward] == 4 + 1
    inside = {r[-2] for r in ranges if r[-1] == backward}
    assert inside == {"layer_backward:critic"}


@pytest.mark.needs("tensorflow")
def test_marks_compute_no_gradients_that_nobody_asks_for() -> None:
    """What stands between marks is run: no framework prunes it."""
    small = find("wgan").variant(None).small
    convolutions = 3 * (len(small.widths) - 1) + 1  # in either network
    generator_turn, critic_turn = cell("wgan", "weight_gradients")
    assert generator_turn == convolutions  # not the critic's
    # Of real and of made images, of the slope's way back, and of the way to what it depends on,
    # which ends before the last block's sum; none while the slope itself is computed.
    assert critic_turn == 3 * convolutions + (convolutions - 2)


@pytest.mark.needs("tensorflow")
def test_the_critic_learns_to_distinguish_made_images_from_real_ones() -> None:
    """Without the penalty its loss is minus the estimate of their distance, which grows at first.

    That the loss gets below zero shows that real images score higher, whatever the penalty.
    """
    losses = cell("wgan", "losses")
    assert losses[0] > 0
    assert losses[-1] < -1
    assert fmean(losses[10:]) < fmean(losses[:10]) - 1


@pytest.mark.needs("tensorflow")
def test_policy_and_value_are_learnt() -> None:
    losses = cell("minigo", "losses")
    assert fmean(losses[-4:]) < 0.7 * fmean(losses[:4])


@pytest.mark.needs("tensorflow")
def test_games_are_played_while_data_are_awaited() -> None:
    """At small scale 8 positions are searched, 4 at a time: two rounds before one of training."""
    ranges = cell("minigo", "playing")
    runs = [number for number, r in enumerate(ranges) if r[-1] == "layer:stem_conv"]
    texts = [r[-1] for r in ranges]
    waiting, training = texts.index("phase:data"), texts.index("phase:forward")
    assert len(runs) == 3
    assert waiting < runs[0] < runs[1] < training < runs[2]
    # The network runs on TensorFlow's thread, the main thread awaits it.
    assert ranges[runs[0]][:-1] == []
    assert ranges[runs[2]][:-1] == ["phase:forward"]
