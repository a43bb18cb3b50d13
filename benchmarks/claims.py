"""What tbd-trace wants to be, as ratios: how many times faster, or smaller, than what it meets."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.measure import Cost

Costs = dict[str, list[Cost]]


@dataclass(frozen=True, slots=True)
class Claim:
    """One comparison.

    Attributes:
        sizes: sizes of file that it is about.
        slower: name of the subject that should take more.
        faster: name of the subject that should take less.
        target: how many times more the slower one should take.
        memory: the comparison is of peak memory, not of wall time.
    """

    sizes: str
    slower: str
    faster: str
    target: float
    memory: bool = False


_INGEST = "tbd-trace ingest"
_LAYERS = "tbd-trace query layer_time, cold"
_OWN_TIME = "tbd-trace query nvtx_gpu_time"
_NSYS_AI = "nsys-ai nvtx_layer_breakdown, cold"

CLAIMS = (
    Claim("L", "SQLite's own scan", _INGEST, 1 / 0.9),
    Claim("L", "tbd-trace ingest, SQLAlchemy", _INGEST, 10),
    Claim("L", "ADBC", _INGEST, 4),
    Claim("L", "DuckDB's sqlite scanner", _INGEST, 2.5),
    Claim("L", "SQLite's own scan, again", f"{_OWN_TIME}, ingested", 1 / 1.5),
    Claim("L", _NSYS_AI, f"{_OWN_TIME}, cold", 7),
    Claim("L", _NSYS_AI, f"{_OWN_TIME}, cold", 5, memory=True),
    Claim("L", _NSYS_AI, _LAYERS, 7),
    Claim("L", _NSYS_AI, _LAYERS, 5, memory=True),
    Claim("S", "nsys stats nvtxgpuproj", "tbd-trace query nvtx_projection, cold", 500),
    Claim("M", "nsys stats nvtxsum", "tbd-trace query nvtx_summary, cold", 5),
    Claim("M", "nsys stats gpukernsum", "tbd-trace query kernel_summary, cold", 1),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A claim as measured.

    Attributes:
        claim: the claim.
        value: median over the rounds of the slower one's cost divided by the faster one's.
        cpu: the same of CPU time, which other work on the machine disturbs less.
        at_least: the slower one was ended at the time limit, so that the ratio is a lower bound.
    """

    claim: Claim
    value: float
    cpu: float
    at_least: bool

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.claim.target


def ratios(size: str, costs: Costs) -> list[Ratio]:
    """Return the claims about a size for which both subjects were measured."""
    found = (_ratio(claim, costs) for claim in CLAIMS if size in claim.sizes)
    return [ratio for ratio in found if ratio is not None]


def _ratio(claim: Claim, costs: Costs) -> Ratio | None:
    slow, fast = costs.get(claim.slower, []), costs.get(claim.faster, [])
    ended = any(cost.timed_out for cost in slow)
    usable = all(cost.usable or cost.timed_out for cost in slow) and all(c.usable for c in fast)
    if not slow or not fast or not usable or (ended and claim.memory):
        return None
    # One that was ended at the limit is not run again: its one round counts for all.
    slow = slow + slow[-1:] * (len(fast) - len(slow))
    rounds = list(zip(slow, fast, strict=True))
    cost = median(_of(s, claim) / _of(f, claim) for s, f in rounds)
    return Ratio(claim, cost, median(s.cpu_seconds / f.cpu_seconds for s, f in rounds), ended)


def _of(cost: Cost, claim: Claim) -> float:
    return float(cost.peak_bytes) if claim.memory else cost.seconds
