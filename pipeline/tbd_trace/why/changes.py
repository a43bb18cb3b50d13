"""Changes of a program: names, arguments, factors and measured parts of the saving.

Factors are in ``data/whatif_models.csv``, parts in ``data/gain_intervals.csv``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tbd_trace import resources
from tbd_trace.errors import UsageError

CHANGES = {
    "input": "batches are ready: no wait for input",
    "workers": "A:B  data-loader workers, from A to B",
    "host_stalls": "stalls of the host take as long as usual",
    "pinned": "copies from pinned instead of pageable memory",
    "overlap_copies": "copies run behind kernels",
    "graph": "GPU graphs: launches and the host work between them vanish",
    "amp": "mixed precision: matrix work and attention in FP16 or BF16 on tensor cores",
    "compile": "fused elementwise, normalization and reduction kernels, as by torch.compile",
    "fused_optimizer": "one kernel updates many tensors",
    "channels_last": "kernels that convert layouts vanish",
    "no_sync": "the host does not wait for the GPU",
    "no_alloc": "allocations of device memory take no time",
    "overlap_comm": "communication runs beside the backward pass",
    "bucket": "larger gradient buckets: an eighth of the collectives",
    "compress": "gradients of half the bytes: communication in FP16 or BF16",
    "comm": "xK or free  communication is K times as fast, or free",
    "straggler": "all ranks begin each collective together: no wait for slower ranks",
    "gpu": "NAME  another GPU of data/gpu_products.csv (unvalidated)",
    "drop": "REGEX  kernels whose name matches vanish",
    "scale": "REGEX:F  kernels whose name matches take F times as long",
}
"""The changes, each with its argument and meaning."""

ADVICE = {
    "overlap_comm": "overlap gradients with the backward pass, as DistributedDataParallel does",
    "bucket": "larger gradient buckets: DistributedDataParallel(bucket_cap_mb=25) or more",
    "compress": "half the bytes of gradients: a communication hook such as bf16_compress_hook",
}
"""What to do, for changes of which one is chosen for a cause."""

WITH_ARGUMENT = {"workers", "comm", "gpu", "drop", "scale"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change; ``factor`` is the number in its argument, ``pattern`` the regular expression."""

    name: str
    text: str
    factor: float = 1.0
    pattern: str = ""
    workers: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class Model:
    """One row of ``data/whatif_models.csv``."""

    change: str
    case: str
    applies_to: str
    quantity: str
    factor: float
    source: str
    validated_by: str


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of the time that a change removes in the replay, which programs really saved.

    In 8 of 10 cases the part lies between the least and the most.
    """

    least: float
    likely: float
    most: float

    def of(self, case: str) -> float:
        """Return the part of a case: best, likely or worst."""
        return {"best": self.most, "likely": self.likely, "worst": self.least}[case]


@cache
def parts() -> dict[str, Parts]:
    """Return the parts by change."""
    return {
        row["change"]: Parts(float(row["least"]), float(row["likely"]), float(row["most"]))
        for row in resources.data_rows("gain_intervals")
    }


@cache
def models() -> Sequence[Model]:
    """Return the models of the changes."""
    return [
        Model(**{**row, "factor": float(row["factor"])})  # type: ignore[arg-type]
        for row in resources.data_rows("whatif_models")
    ]


def factors(change: str, case: str, quantity: str) -> dict[str, float]:
    """Return the factor for each kind of work that a change affects in a case.

    A case without models is that without the change; the best case includes the likely one.
    """
    cases = {"best": ("likely", "best")}.get(case, (case,))
    return {
        model.applies_to: model.factor
        for wanted in cases
        for model in models()
        if (model.change, model.case, model.quantity) == (change, wanted, quantity)
    }


def validated_by(changes: Sequence[Change]) -> str | None:
    """Return the measured pairs that support the models of some changes, None without one."""
    pairs = [
        model.validated_by
        for change in changes
        for model in models()
        if model.change == change.name and model.validated_by
    ]
    return "; ".join(dict.fromkeys(pairs)) or None


def parse_change(text: str) -> Change:
    """Parse ``NAME`` or ``NAME=ARGUMENT``.

    Raises:
        UsageError: the change is unknown, or its argument invalid.
    """
    name, equals, argument = text.partition("=")
    name, argument = name.strip(), argument.strip()
    if name not in CHANGES:
        raise UsageError(f"--change {text}: unknown; use one of {', '.join(CHANGES)}")
    if bool(argument) != (name in WITH_ARGUMENT) or bool(equals) != bool(argument):
        usage = CHANGES[name].split("  ")[0] if name in WITH_ARGUMENT else "no argument"
        raise UsageError(
            f"--change {text}: expected {name}={usage}"
            if argument == "" and name in WITH_ARGUMENT
            else f"--change {text}: takes {usage}"
        )
    try:
        return _parsed(name, text, argument)
    except (ValueError, re.error) as error:
        raise UsageError(
            f"--change {text}: expected {name}={CHANGES[name].split('  ')[0]} ({error})"
        ) from None


def _parsed(name: str, text: str, argument: str) -> Change:
    match name:
        case "workers":
            before, _, after = argument.partition(":")
            # A loader without workers loads in the training process, like one worker.
            numbers = max(1, int(before)), max(1, int(after))
            if int(before) < 0 or int(after) < 1:
                raise ValueError("workers are counted from 0")
            return Change(name, text, workers=numbers)
        case "comm":
            factor = (
                0.0
                if argument == "free"
                else 1 / _positive(argument.lstrip("x\N{MULTIPLICATION SIGN}"))
            )
            return Change(name, text, factor=factor)
        case "drop":
            re.compile(argument)
            return Change(name, text, pattern=argument)
        case "scale":
            pattern, colon, number = argument.rpartition(":")
            if not colon:
                raise ValueError("no factor")
            re.compile(pattern)
            return Change(name, text, factor=_positive(number), pattern=pattern)
        case _:
            return Change(name, text, pattern=argument)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError("the factor is not positive")
    return value
