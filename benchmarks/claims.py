"""Performance targets of tbd-trace: ratios of time or memory to reference tools."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks.measure import Cost
from benchmarks.sizes import SIZES

Costs = dict[str, list[Cost]]
_LEAST = 1e-3  # s


@dataclass(frozen=True, slots=True)
class Claim:
    """A comparison of two subjects."""

    sizes: str  # sizes of file that it applies to, or memory for a memory snapshot
    slower: str  # subject expected to cost more
    faster: str  # subject expected to cost less
    target: float  # minimum ratio slower / faster
    memory: bool = False  # compare peak memory instead of wall time
    # Seconds per kernel of the trace that the faster subject may take in addition.
    allowed_s: float = 0.0


_INGEST = "tbd-trace ingest"
_LAYERS = "tbd-trace query layer_time, cold"
_OWN_TIME = "tbd-trace query nvtx_gpu_time"
WHY = "tbd-trace why, ingested"
"""Subject that explains a trace, with nothing derived."""
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
    *(
        Claim(size, "tbd-trace query step_breakdown, ingested", WHY, 1 / 2, allowed_s=3e-5)
        for size in ("S", "M", "L")
    ),
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
    kernels = SIZES[size].kernels if size in SIZES else 0
    computed = (_ratio(claim, costs, kernels) for claim in CLAIMS if size in claim.sizes)
    return [ratio for ratio in computed if ratio is not None]


def _ratio(claim: Claim, costs: Costs, kernels: int) -> Ratio | None:
    slow, fast = costs.get(claim.slower, []), costs.get(claim.faster, [])
    ended = any(cost.timed_out for cost in slow)
    usable = all(cost.usable or cost.timed_out for cost in slow) and all(c.usable for c in fast)
    if not slow or not fast or not usable or (ended and claim.memory):
        return None
    # A subject that timed out ran only once; use that run for all rounds.
    slow = slow + slow[-1:] * (len(fast) - len(slow))
    rounds = list(zip(slow, fast, strict=True))
    allowed = claim.allowed_s * kernels
    cost = median(_of(s, claim) / max(_of(f, claim) - allowed, _LEAST) for s, f in rounds)
    return Ratio(claim, cost, median(s.cpu_seconds / f.cpu_seconds for s, f in rounds), ended)


def _of(cost: Cost, claim: Claim) -> float:
    return float(cost.peak_bytes) if claim.memory else cost.seconds
