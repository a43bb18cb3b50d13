"""MiniGo: dimensions and variants for all frameworks."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_models.definition import Model, Variant

# Planes of the network's input: stones of the player to move and of the opponent in the last
# positions, and one plane for the colour to move.
HISTORY = 8
PLANES = 2 * HISTORY + 1


@dataclass(frozen=True, slots=True)
class SelfPlay:
    """Parameters of self-play."""

    readouts: int = 200  # positions searched per move
    leaves: int = 8  # positions of a game that the network evaluates together
    temperature_moves: int = 6  # first moves, drawn by visits instead of the most visited
    komi: float = 7.5  # points that White gets for moving second


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Dimensions of a residual network for Go with a policy and a value head."""

    board: int = 9  # lines in each direction
    blocks: int = 9
    width: int = 32  # channels of the blocks
    value_width: int = 64  # units of the value head's fully connected layer
    weight_decay: float = 1e-4  # factor of the L2 loss of all weights but biases
    learning_rate: float = 1e-2  # of SGD with momentum 0.9
    self_play: SelfPlay | None = None  # None for synthetic positions

    @property
    def moves(self) -> int:
        """Return the number of moves: the points of the board, and passing."""
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
    "the variants train only the network, on synthetic positions whose best move has most stones "
    "of the player beside it. In selfplay each place in the batch is a game, and in phase data of "
    "every iteration each game searches 200 positions and makes a move; the network evaluates 8 of "
    "every game at a time, where MLPerf's code plays one game after another and trains between "
    "generations. Training draws from finished games, and from synthetic positions until the "
    "first one is finished; no game is resigned. FLOP are those of "
    "training: the search evaluates 200 more positions per position trained on. Values are for the "
    "player to move, not for Black.",
)
