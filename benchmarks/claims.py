"""Performance targets of tbd-trace: ratios of time or memory to reference tools."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.measure import Cost

Costs = dict[str, list[Cost]]


@dataclass(frozen=True, slots=True)
class Claim:
    """A comparison of two subjects."""

    sizes: str  # sizes of file that it applies to, or memory for a memory snapshot
    slower: str  # subject expected to cost more
    faster: str  # subject expected to cost less
    target: float  # minimum ratio slower / faster
    memory: bool = False  # compare peak memory instead of wall time


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
    Claim("memory", "PyTorch's trace_plot", "tbd-trace ingest, snapshot", 1 / 1.5),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measured claim."""

    claim: Claim
    value: float  # median ratio over the rounds
    cpu: float  # the same for CPU time, which other load on the machine affects less
    at_least: bool  # the slower subject timed out, so the ratio is a lower bound

    @property
    def reached(self) -> bool:
        """True if the target is reached."""
        return self.value >= self.claim.target


def ratios(size: str, costs: Costs) -> list[Ratio]:
    """Return the claims about a size whose subjects were both measured."""
    found = (_ratio(claim, costs) for claim in CLAIMS if size in claim.sizes)
    return [ratio for ratio in found if ratio is not None]


def _ratio(claim: Claim, costs: Costs) -> Ratio | None:
    slow, fast = costs.get(claim.slower, []), costs.get(claim.faster, [])
    ended = any(cost.timed_out for cost in slow)
    usable = all(cost.usable or cost.timed_out for cost in slow) and all(c.usable for c in fast)
    if not slow or not fast or not usable or (ended and claim.memory):
        return None
    # A subject that timed out ran only once; use that run for all rounds.
    slow = slow + slow[-1:] * (len(fast) - len(slow))
    rounds = list(zip(slow, fast, strict=True))
    cost = median(_of(s, claim) / _of(f, claim) for s, f in rounds)
    return Ratio(claim, cost, median(s.cpu_seconds / f.cpu_seconds for s, f in rounds), ended)


def _of(cost: Cost, claim: Claim) -> float:
    return float(cost.peak_bytes) if claim.memory else cost.seconds
