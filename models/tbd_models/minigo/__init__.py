"""MiniGo: what its frameworks share."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.definition import Model, Variant

HISTORY = 8
PLANES = 2 * HISTORY + 1
"""Stones of the player to move and of the other in the last positions, and whose turn it is."""


@dataclass(frozen=True, slots=True)
class SelfPlay:
    """How the network plays against itself.

    Attributes:
        readouts: positions that are searched before a move.
        leaves: positions that the network judges at a time.
        temperature_moves: moves of a game that are drawn by visits rather than the most visited.
        komi: points that White has from the start.
    """

    readouts: int = 200
    leaves: int = 8
    temperature_moves: int = 6
    komi: float = 7.5


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of a residual network for Go with two heads.

    Attributes:
        board: lines of the board in each direction.
        blocks: residual blocks.
        width: channels of the blocks.
        value_width: units of the fully connected layer of the value head.
        weight_decay: factor of half the squares of all weights but biases in the loss.
        learning_rate: of stochastic gradient descent with momentum 0.9.
        self_play: how positions come from games, None for synthetic positions.
    """

    board: int = 9
    blocks: int = 9
    width: int = 32
    value_width: int = 64
    weight_decay: float = 1e-4
    learning_rate: float = 1e-2
    self_play: SelfPlay | None = None

    @property
    def moves(self) -> int:
        """Points of the board, and passing."""
        return self.board**2 + 1


def _variant(
    name: str,
    dimensions: Dimensions,
    size: tuple[int, int, int],
    source: str,
    small_play: SelfPlay | None = None,
) -> Variant:
    parameters, forward_flop, training_flop = size
    return Variant(
        name=name,
        dimensions=dimensions,
        small=Dimensions(board=5, blocks=3, width=16, value_width=16, self_play=small_play),
        dataset="positions of self-play",
        default_batch_size=16,
        sweep=(16, 32, 64, 128, 256),
        optimizer="sgd",
        parameters=parameters,
        forward_flop=forward_flop,
        training_flop=training_flop,
        source=source,
    )


_MLPERF = (191_386, 27_719_624, 82_365_720)
_SOURCE = "MLPerf Training v0.5, reinforcement/tensorflow/minigo"

MODEL = Model(
    name="minigo",
    title="MiniGo",
    application="reinforcement learning",
    frameworks=("tensorflow",),
    layers="n/a",
    dominant_layer="CONV",
    dominant_types=("Conv2D",),
    batch_definition="positions",
    throughput_unit="positions/s",
    variants=(
        _variant("mlperf-9x9", Dimensions(), _MLPERF, _SOURCE),
        _variant(
            "9x9-20x128",
            Dimensions(blocks=20, width=128, value_width=256),
            (5_968_570, 958_818_248, 2_873_282_136),
            "tower of MiniGo's second run (its RESULTS.md; 19x19 there)",
        ),
        _variant(
            "selfplay",
            Dimensions(self_play=SelfPlay()),
            _MLPERF,
            f"{_SOURCE}; Silver et al. 2017",
            SelfPlay(readouts=8, leaves=4),
        ),
    ),
    notes="The suite published no code. mlperf-9x9 is the network of MLPerf's reference code on a "
    "9x9 board, 9 blocks of 32 channels, with its batch of 16; batch sizes above are ours. Two of "
    "the variants train the network alone, on synthetic positions whose best move has most stones "
    "of the player beside it. In selfplay each place in the batch is a game, and in phase data of "
    "every iteration each game searches 200 positions and makes a move; the network judges 8 of "
    "every game at a time, where MLPerf's code plays one game after another and trains between "
    "generations. Training draws from games that are over, and from synthetic positions until the "
    "first one is; nobody resigns. FLOP are those of "
    "training: the search judges 200 positions more per position trained on. Values are for the "
    "player to move, not for Black.",
)
