"""Compare the work of a step of two runs: the same, less, more, or not known.

The rows of ``queries/diff/work.sql`` are compared. Numbers of operators, products and kernels do
not count: fused and compiled code and activation checkpointing change them at the same work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import hypot
from typing import Any

_TOLERANCE = 0.005  # of an amount; half of what a grouped convolution saves in small networks
_ERRORS = 3.0  # standard errors of the FLOP of steps that differ, as with batches of any length
_COARSE = 0.1  # a larger tolerance does not show the same work
_ROUGH = 0.05  # tolerance of bytes, blocks and times of kernels
_HIDDEN = "compiled code and graphs hide operators"
_NO_PRODUCTS = "the steps have no products, convolutions or attention of known sizes"
_NO_SHAPES = (
    "shapes of inputs are not known on both sides; record them with torch.profiler, "
    "`record_shapes=True`"
)


class SameWork(StrEnum):
    """Whether a step of B does the work of one of A."""

    SAME = "same"
    LESS = "less"
    MORE = "more"
    OTHER = "other"  # on another GPU
    UNKNOWN = "unknown"


Difference = tuple[str, Any, Any]
"""What differs, its value in A and in B."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a step of B against that of A."""

    verdict: SameWork
    differs: tuple[Difference, ...] = ()  # what makes the work another one
    beside: tuple[Difference, ...] = ()  # what else differs, at the same work
    reason: str | None = None  # why the verdict is unknown
    # Samples or rows of B ÷ those of A, if their number alone makes the work another one.
    units_ratio: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    what: str
    a: float | None
    b: float | None
    a_name: str | None
    b_name: str | None

    @property
    def is_known(self) -> bool:
        return self.a is not None and self.b is not None

    def is_less(self, tolerance: float) -> bool:
        return self.a is not None and (self.b or 0.0) < self.a * (1 - tolerance)

    def is_more(self, tolerance: float) -> bool:
        return self.b is not None and self.b * (1 - tolerance) > (self.a or 0.0)

    def differs(self, tolerance: float) -> bool:
        return self.a_name != self.b_name or (
            self.is_known and (self.is_less(tolerance) or self.is_more(tolerance))
        )

    def difference(self) -> Difference:
        has_names = self.a_name is not None and self.b_name is not None
        if has_names and self.a_name != self.b_name:
            return (self.what, self.a_name, self.b_name)
        return (self.what, self.a, self.b)


_MOST_NAMED = 5
_MOST_DIGITS = 999_999  # larger amounts are stated as factors
_SHOWN = (
    *("batch", "sequence", "rows", "input", "parameters", "FLOP", "backward", "trained values"),
    *("loss", "optimizer", "bytes", "collectives", "communication", "ranks", "GPU"),
)
_BESIDE = ("precision", "compiled", "graphs")


def compared_work(rows: Sequence[Mapping[str, Any]], *, is_stated: bool = False) -> Work:
    """Compare the work of two runs.

    Args:
        rows: of ``queries/diff/work.sql``.
        is_stated: True if the captures of both runs state the same model, batch and data.
    """
    work = _Comparison(rows)
    if work.has_shapes:
        return work.with_shapes()
    if work.has_gradients and not is_stated:
        return work.without_products()
    return work.without_shapes(is_stated=is_stated)


def differences(differs: Sequence[Difference]) -> str:
    """Return what differs in words: values where they are short, else factors."""
    parts = [_difference(*difference) for difference in differs[:_MOST_NAMED]]
    more = len(differs) - _MOST_NAMED
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _difference(what: str, a: Any, b: Any) -> str:
    if isinstance(a, str) or isinstance(b, str):
        return f"{what} {a or 'unknown'} → {b or 'unknown'}"
    if not b:
        return f"no {what}"
    if not a:
        return f"{what} in B only"
    if a == int(a) and b == int(b) and max(a, b) <= _MOST_DIGITS:
        return f"{what} {int(a):,} → {int(b):,}"
    return f"{what} × {b / a:.2f}"


class _Comparison:
    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        fields = ("what", "a", "b", "a_name", "b_name")
        self._rows = {row["what"]: _Row(*(row[field] for field in fields)) for row in rows}
        error = self._row("error")
        self._tolerance = _TOLERANCE + _ERRORS * hypot(error.a or 0.0, error.b or 0.0) / 100
        # Without the strides of convolutions on a side, shapes alone are compared.
        if not self._row("FLOP").is_known:
            size = self._row("size")
            self._rows["FLOP"] = _Row("FLOP", size.a, size.b, None, None)

    @property
    def has_shapes(self) -> bool:
        return self._row("FLOP").is_known and (self._row("backward").is_known or self.has_gradients)

    @property
    def has_gradients(self) -> bool:
        return self._row("trained values").is_known

    def with_shapes(self) -> Work:
        certain = [row for row in (self._trained(), self._exchanged()) if row is not None]
        losses = self._losses()
        if certain or (losses and not self._is_hidden("b")):
            return self._other(SameWork.LESS, [*losses, *certain])
        if losses:
            return Work(SameWork.UNKNOWN, reason=f"{_HIDDEN} of B", beside=self._beside())
        more = [row for row in self._products() if row.is_more(self._tolerance)]
        if more and self._is_hidden("a"):
            return Work(SameWork.UNKNOWN, reason=f"{_HIDDEN} of A", beside=self._beside())
        if more:
            return self._other(SameWork.MORE, more)
        if self._tolerance > _COARSE:
            reason = (
                f"steps vary, so that their means are known to {100 * self._tolerance:.0f} % only"
            )
            return Work(SameWork.UNKNOWN, reason=f"{reason}; record more steps")
        return self._same()

    def without_products(self) -> Work:
        """Compare gradients, losses and updates of steps whose shapes are known."""
        if smaller := [*self._losses(), *filter(None, [self._trained()])]:
            return self._other(SameWork.LESS, smaller)
        return Work(SameWork.UNKNOWN, reason=_NO_PRODUCTS, beside=self._beside())

    def without_shapes(self, *, is_stated: bool) -> Work:
        """Compare bytes, grids and collectives, which can refute the same work, not prove it."""
        for row in self._signs():
            if row.is_less(_ROUGH):
                return self._other(SameWork.LESS, [row], _ROUGH)
            if row.is_more(_ROUGH):
                return self._other(SameWork.MORE, [row], _ROUGH)
        less = [row for row in (*self._stopped(), self._exchanged()) if row is not None]
        if less and not self._is_hidden("b"):
            return self._other(SameWork.LESS, less, _ROUGH)
        if is_stated:
            return self._same()
        if self._row("GPU").differs(_ROUGH):
            return self._other(SameWork.OTHER, [self._row("GPU")], _ROUGH)
        hides = [f"{_HIDDEN} of {side.upper()}" for side in "ab" if self._is_hidden(side)]
        reason = "; ".join([*hides, _NO_SHAPES])
        return Work(SameWork.UNKNOWN, reason=reason, beside=self._beside())

    def _signs(self) -> list[_Row]:
        # A loader can copy fewer bytes at the same work, but the same kernels then take as long.
        blocks, time = self._row("matrix blocks"), self._row("matrix time")
        shorter, longer = time.is_less(_ROUGH), time.is_more(_ROUGH)
        signs = [_Row("rows", blocks.a, blocks.b, None, None), self._row("bytes")]
        seen = [
            row
            for row in signs
            if (shorter and row.is_less(_ROUGH)) or (longer and row.is_more(_ROUGH))
        ]
        return [row for row in (self._row("batch"), *seen) if row.is_known]

    def _row(self, what: str) -> _Row:
        return self._rows.get(what, _Row(what, None, None, None, None))

    def _products(self) -> list[_Row]:
        return [row for row in (self._row("FLOP"), self._row("backward")) if row.is_known]

    def _losses(self) -> list[_Row]:
        # Amounts of operators that are smaller in B. Without a loss there is none in a step.
        rows = [*self._products(), self._row("loss")]
        update = self._row("optimizer")
        if update.a_name == update.b_name and update.is_known:
            rows.append(update)
        return [row for row in rows if row.is_less(self._tolerance)] + self._stopped()

    def _stopped(self) -> list[_Row]:
        stopped = []
        for name, what in (("has backward", "backward"), ("has optimizer", "optimizer")):
            row = self._row(name)
            if row.a and row.b == 0:
                stopped.append(_Row(what, row.a, row.b, None, None))
        return stopped

    def _trained(self) -> _Row | None:
        # Each pass of an accumulated step adds the gradients again.
        row, passes = self._row("trained values"), self._row("passes")
        if row.a is None or row.b is None or not row.is_less(self._tolerance):
            return None
        in_a, in_b = row.a / (passes.a or 1.0), row.b / (passes.b or 1.0)
        return row if _Row(row.what, in_a, in_b, None, None).is_less(self._tolerance) else None

    def _exchanged(self) -> _Row | None:
        # A step whose passes each exchange gradients can exchange them once.
        row, count, passes = map(self._row, ("communication", "collectives", "passes"))
        if not row.is_known:
            # Larger buckets are fewer collectives.
            return count if count.a and count.b == 0 else None
        if not row.is_less(_ROUGH):
            return None
        once = _Row(row.what, (row.a or 0.0) / max(passes.a or 1.0, 1.0), row.b, None, None)
        return row if once.is_less(_ROUGH) else None

    def _is_hidden(self, side: str) -> bool:
        return any(getattr(self._row(what), side) for what in ("compiled", "graphs"))

    def _same(self) -> Work:
        for row in map(self._row, ("GPU", "ranks")):
            if row.differs(self._tolerance):
                return self._other(SameWork.OTHER, [row])
        return Work(SameWork.SAME, beside=self._beside())

    def _beside(self) -> tuple[Difference, ...]:
        rows = [self._row(what) for what in (*_SHOWN, *_BESIDE)]
        return tuple(row.difference() for row in rows if row.differs(self._tolerance))

    def _other(self, verdict: SameWork, signs: list[_Row], tolerance: float | None = None) -> Work:
        allowed = self._tolerance if tolerance is None else tolerance
        rows = {row.what: row for row in map(self._row, _SHOWN) if row.differs(allowed)}
        rows |= {row.what: row for row in signs}
        differs = tuple(rows[what].difference() for what in _SHOWN if what in rows)
        beside = tuple(row.difference() for row in map(self._row, _BESIDE) if row.differs(allowed))
        unit, ratio = self._units(allowed)
        return Work(verdict, differs, beside, units_ratio=ratio, unit=unit)

    def _units(self, tolerance: float) -> tuple[str | None, float | None]:
        # The inputs of B ÷ those of A, if they explain all of the other work.
        for unit, what in (("sample", "batch"), ("row", "rows")):
            row, flop = self._row(what), self._row("FLOP")
            if row.a and row.b and flop.a and flop.b and row.differs(tolerance):
                ratio = row.b / row.a
                if abs(flop.b / flop.a / ratio - 1) <= tolerance:
                    return unit, ratio
        return None, None
