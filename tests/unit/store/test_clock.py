"""GPU and host clocks: made runs on one clock, shifted by what a test knows."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import tbd_trace
from fast import examples, one_in
from made_nsys import GPU, KERNEL, RUNTIME, STRINGS, SYNC, call, gpu, kernel, operation, write
from tbd_trace.store import Database

LAUNCH, SYNCHRONIZE, WAIT = 4, 20, 21
STEP = 6_000_000
SHIFTED = re.compile(
    r"GPU clock was ([\d.,]+) (s|ms|µs) (ahead of|behind) the host clock"
    r"(?:, drifting by (-?[\d.]+) µs per s)? "
    r"\(±([\d.,]+) (s|ms|µs), from ([\d,]+) launches(?: and ([\d,]+) synchronisations)?\)"
)
UNITS = {"s": 1e9, "ms": 1e6, "µs": 1e3}


@dataclass
class Run:
    """A run on one clock: kernels as (launch, start, end), synchronisations as (start, end)."""

    kernels: list[tuple[int, int, int]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)


def host_bound(kernels: int, latencies: list[int], *, waits: bool, begin: int = 10**9) -> Run:
    """Return a run whose host works 5 ms of every 6, so that the GPU waits for it."""
    run = Run()
    for i in range(kernels):
        at = begin + i * STEP + 5_000_000
        start = at + latencies[i % len(latencies)]
        run.kernels.append((at, start, start + 500_000))
        if waits:
            run.waits.append((at + 2_000, start + 500_000 + 3_000 + latencies[-i % len(latencies)]))
    return run


def queued(kernels: int) -> Run:
    """Return a run whose host is seconds ahead of the GPU."""
    run, free = Run(), 0
    for i in range(kernels):
        at = 10**9 + i * 10_000
        start = max(at + 8_000, free + 1_000)
        free = start + 20_000_000
        run.kernels.append((at, start, free))
    return run


def export(path: Path, run: Run, offset: int = 0, drift: float = 0.0) -> Path:
    """Write a run as an export whose GPU clock is off and drifts."""

    def on_gpu(at: int) -> int:
        return at + offset + round(drift * (at - 10**9))

    calls, kernels, waits = [], [], []
    for i, (at, start, end) in enumerate(run.kernels):
        calls.append(call(LAUNCH, start=at, end=at + 2_000, correlationId=i + 1))
        kernels.append(kernel(start=on_gpu(start), end=on_gpu(end), correlationId=i + 1))
    for i, (start, end) in enumerate(run.waits, len(run.kernels) + 1):
        calls.append(call(SYNCHRONIZE, start=start, end=end, correlationId=i))
        waits.append(operation(start=start, end=end, syncType=4, correlationId=i))
    texts = STRINGS | {SYNCHRONIZE: "cudaDeviceSynchronize_v3020"}
    tables = {
        "StringIds": [{"id": number, "value": text} for number, text in texts.items()],
        RUNTIME: sorted(calls, key=lambda row: row["start"]),
        KERNEL: kernels,
        GPU: [gpu(0, 0)],
    }
    return write(path, tables | ({SYNC: waits} if waits else {}))


def ingested(run: Run, offset: int = 0, drift: float = 0.0) -> tuple[list[str], list[int]]:
    """Return the notes and the starts of the kernels."""
    with tempfile.TemporaryDirectory() as folder:
        notes, starts, _ = stored(Path(folder), run, offset, drift)
        return notes, starts


def explained(run: Run, offset: int = 0) -> tuple[list[str], list[int], pl.DataFrame]:
    """Return the causes of idle time, too, which take as long as the ingest."""
    with tempfile.TemporaryDirectory() as folder:
        notes, starts, database = stored(Path(folder), run, offset)
        return notes, starts, tbd_trace.open(db=database.path).query("idle_causes")


def stored(
    folder: Path, run: Run, offset: int = 0, drift: float = 0.0
) -> tuple[list[str], list[int], Database]:
    path = export(folder / "made.sqlite", run, offset, drift)
    database = Database(folder / "db.duckdb")
    (report,) = database.ingest([path])
    kernels = database.relation("kernel", [report.trace_id])
    rows = duckdb.execute(f"SELECT start_ns FROM ({kernels}) ORDER BY kernel_id").fetchall()
    return report.notes, [start for (start,) in rows], database


def shift(notes: list[str]) -> tuple[float, float]:
    """Return the offset and the uncertainty that a note gives, in ns."""
    (match,) = filter(None, map(SHIFTED.match, notes))
    sign = 1 if match[3] == "ahead of" else -1
    ahead = sign * float(match[1].replace(",", "")) * UNITS[match[2]]
    return ahead, float(match[5].replace(",", "")) * UNITS[match[6]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "offset",
    one_in(4, [300 * 10**9, -2_000_000, -300 * 10**9, 5 * 86_400 * 10**9], then_one_in=3),
)
@pytest.mark.parametrize("waits", [False, True])
def test_a_gpu_on_another_clock_is_put_on_the_host_s(offset: int, waits: bool) -> None:
    run = host_bound(200, [10_000], waits=waits)
    notes, starts, causes = explained(run, offset)
    ahead, uncertainty = shift(notes)
    assert abs(ahead - offset) <= uncertainty + 500_000
    assert uncertainty <= 20_000
    errors = [found - start for found, (_, start, _) in zip(starts, run.kernels, strict=True)]
    assert max(map(abs, errors)) <= uncertainty + 100
    shares = dict(causes.select("cause", "share_pct").rows())
    assert shares["host"] > 85
    assert shares.get("launch_latency", 0) < 2


@pytest.mark.slow
@given(
    latencies=st.lists(st.integers(4_000, 25_000), min_size=3, max_size=40),
    ahead=st.integers(2_000_000, 5 * 86_400 * 10**9),
    behind=st.booleans(),
    drift=st.sampled_from([0.0, 1e-4, -1e-4, 3e-5]),
    waits=st.booleans(),
)
@example(latencies=[24_914, 22_961, 4_907], ahead=51_262_424, behind=True, drift=3e-5, waits=True)
@settings(max_examples=examples(20), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_what_was_on_one_clock_is_so_again(
    latencies: list[int], ahead: int, behind: bool, drift: float, waits: bool
) -> None:
    if not waits and not behind:
        ahead += 2 * 10**9  # without a synchronisation a smaller one could be a queue
    run = host_bound(150, latencies, waits=waits)
    notes, starts = ingested(run, -ahead if behind else ahead, drift)
    _, uncertainty = shift(notes)
    for found, (at, start, _) in zip(starts, run.kernels, strict=True):
        assert abs(found - start) <= uncertainty + 100
        # A drift below what latencies vary by may stay: waits then contradict launches.
        assert drift or found >= at - 100  # causal


@pytest.mark.slow
@given(st.lists(st.integers(4_000, 40_000_000), min_size=3, max_size=40), st.booleans())
@settings(max_examples=examples(10), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_one_clock_is_left_alone(latencies: list[int], waits: bool) -> None:
    run = host_bound(60, [min(latency, 5_400_000) for latency in latencies], waits=waits)
    notes, starts = ingested(run)
    assert not [note for note in notes if "clock" in note]
    assert starts == [start for _, start, _ in run.kernels]


@pytest.mark.slow
def test_a_long_queue_is_no_other_clock() -> None:
    notes, starts = ingested(run := queued(300))
    assert not [note for note in notes if "clock" in note]
    assert starts == [start for _, start, _ in run.kernels]
    # A recording that began while the queue was long: no launch is fast, but the GPU is never idle.
    late = Run(run.kernels[200:])
    notes, starts = ingested(late)
    assert not [note for note in notes if "clock" in note]
    assert starts == [start for _, start, _ in late.kernels]


@pytest.mark.slow
def test_where_no_offset_fits_the_times_stay_and_causes_are_unknown() -> None:
    run = host_bound(60, [10_000], waits=False)
    off = [(-1) ** i * (1 + i % 7) * 40 * 10**9 for i in range(60)]
    kernels = [(at, s + o, e + o) for (at, s, e), o in zip(run.kernels, off, strict=True)]
    notes, starts, causes = explained(Run(kernels))
    assert [note for note in notes if note.startswith("GPU and host clocks do not agree")]
    assert starts == [start for _, start, _ in kernels]
    assert set(causes["cause"]) == {"unknown"}
    assert all("clocks do not agree" in reason for reason in causes["reason"])


@pytest.mark.slow
def test_a_few_kernels_before_their_launch_are_reported_and_left() -> None:
    run = host_bound(400, [10_000], waits=True)
    at, start, end = run.kernels[7]
    run.kernels[7] = (at, start - 2_000_000, end)
    notes, starts, causes = explained(run)
    assert [note for note in notes if "start before their launch" in note and ": 1 of 400" in note]
    assert starts == [start for _, start, _ in run.kernels]
    assert "host" in set(causes["cause"])
