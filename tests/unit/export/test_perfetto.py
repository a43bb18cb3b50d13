"""export perfetto: what is in the file, read with Perfetto's own message definitions."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

import tbd_trace
from corpus import ROOT
from fast import nightly
from made_nsys import KERNEL, MEMCPY, NVTX, RUNTIME, call, kernel, nvtx, operation, profile, write
from perfetto_file import File, read
from tbd_trace.errors import CannotAnswerError, TbdTraceError, UsageError
from tbd_trace.export.perfetto import ExportSummary, export
from trace_processor import ask

pytestmark = pytest.mark.usefixtures("sample_cache")

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"


def exported(source: Path, folder: Path, name: str = "made.pftrace") -> tuple[File, ExportSummary]:
    written = export(tbd_trace.open(source), folder / name)
    return read(folder / name), written


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def sample_file(exports: Path) -> tuple[File, ExportSummary]:
    return exported(SAMPLE, exports)


@pytest.mark.slow
def test_everything_in_the_sample_is_in_the_file(
    sample_file: tuple[File, ExportSummary],
) -> None:
    file, written = sample_file
    traces = tbd_trace.open(SAMPLE)
    assert Counter(found.category for found in file.slices) == written.slices
    for table, category in (("kernel", "kernel"), ("memcpy", "memcpy"), ("memset", "memset"),
                            ("api_call", "cuda"), ("nvtx_range", "nvtx")):  # fmt: skip
        rows = traces.sql(
            f"SELECT start_ns, end_ns FROM {table} SEMI JOIN trace t ON t.trace_id = "
            f"{table}.trace_id AND t.kind = 'timeline' WHERE start_ns IS NOT NULL ORDER BY ALL"
        ).rows()
        assert rows
        assert sorted((found.start, found.end) for found in file.of(category)) == rows
    assert file.processes == {4242: "python"}
    assert set(file.threads) == {4242, 4250}


def test_flows_lead_from_the_call_to_what_it_caused(
    sample_file: tuple[File, ExportSummary],
) -> None:
    file, _ = sample_file
    begins = {flow: found for found in file.slices for flow in found.starts}
    ends = {flow: found for found in file.slices for flow in found.ends}
    assert begins.keys() == ends.keys()
    assert len(ends) == len(file.of("kernel")) + len(file.of("memcpy")) + len(file.of("memset"))
    for flow, call_ in begins.items():
        caused = ends[flow]
        assert call_.arguments["correlation_id"] == caused.arguments["correlation_id"]
        assert call_.start <= caused.start
        assert call_.track[-1] == "CUDA"


@pytest.mark.slow
def test_kernels_carry_configuration_layer_and_iteration(
    sample_file: tuple[File, ExportSummary],
) -> None:
    file, _ = sample_file
    first = min(file.of("kernel"), key=lambda found: found.start)
    assert first.name == "ampere_scudnn_128x64_relu_small_nn_v1"
    assert first.track == ("GPU 0 NVIDIA A100-SXM4-40GB, process 4242", "Stream 7 (context 1)")
    assert first.arguments == {
        "grid": "256 1 1",
        "block": "256 1 1",
        "registers_per_thread": 64,
        "shared_bytes": 16384,
        "layer": "conv1",
        "phase": "forward",
        "iteration": 0,
        "correlation_id": 8,
    }
    assert {found.arguments.get("iteration") for found in file.of("kernel")} >= set(range(12))
    assert all("bytes" in found.arguments for found in file.of("memcpy"))


def made(folder: Path) -> Path:
    """Two processes with the same correlation ids, ranges that cross, kernels at the same time."""
    tables = profile()
    tables[KERNEL] = [
        kernel(pid, start=start, end=end, correlationId=1, streamId=7)
        for pid in (100, 200)
        for start, end in ((1000, 1100), (1050, 1200), (1100, 1150))
    ]
    tables[MEMCPY] = [operation(100, start=1300, end=1310, correlationId=2, copyKind=1, bytes=64)]
    tables[RUNTIME] = [call(4, pid, start=900, end=910, correlationId=1) for pid in (100, 200)]
    tables[NVTX] = [
        nvtx(60, 100, start=10, end=500, text="first", rangeId=1),
        nvtx(60, 100, start=400, end=900, text="second", rangeId=2),
        nvtx(59, 100, start=20, end=300, text="outer"),
        nvtx(59, 100, start=30, end=200, text="inner"),
        nvtx(34, 100, start=250, text="a mark"),
    ]
    return write(folder / "made.sqlite", tables)


@pytest.mark.slow
def test_processes_overlap_and_marks(elsewhere: Path) -> None:
    file, written = exported(made(elsewhere), elsewhere)
    kernels = file.of("kernel")
    assert len(kernels) == 6
    per_track = Counter(found.track for found in kernels)
    # per process: 1000-1100 and 1100-1150 on one, 1050-1200 beside it
    assert sorted(per_track.values()) == [1, 1, 2, 2]
    assert all("Stream 7" in track[-1] for track in per_track)
    for process in (100, 200):
        caused = {f for k in kernels if f"process {process}" in k.track[0] for f in k.ends}
        (launch,) = (
            found for found in file.of("cuda") if found.starts and set(found.starts) & caused
        )
        assert set(launch.starts) == caused
        assert len(caused) == 3
    crossing = [found for found in file.of("nvtx") if found.name in {"first", "second"}]
    assert len({found.track for found in crossing}) == 2
    assert {(found.start, found.end) for found in crossing} == {(10, 500), (400, 900)}
    (outer,) = (found for found in file.of("nvtx") if found.name == "outer")
    (inner,) = (found for found in file.of("nvtx") if found.name == "inner")
    assert outer.track == inner.track
    assert [(at, name) for _, at, name in file.instants] == [(250, "a mark")]
    assert written.instants == 1


@pytest.mark.slow
def test_compressed_is_the_same_and_the_same_twice(
    elsewhere: Path, exports: Path, sample_file: tuple[File, ExportSummary]
) -> None:
    traces, names = tbd_trace.open(SAMPLE), ("b.pftrace", "a.pftrace.gz", "b.pftrace.gz")
    for name in names:
        export(traces, elsewhere / name)
    plain = (exports / "made.pftrace").read_bytes()
    again, packed, packed_again = ((elsewhere / name).read_bytes() for name in names)
    assert plain == again == gzip.decompress(packed)
    assert packed == packed_again


@pytest.mark.slow
def test_sampled_metrics_become_counters(elsewhere: Path) -> None:
    source = profile()
    traces = tbd_trace.open(write(elsewhere / "made.sqlite", source))
    samples = traces.sql("SELECT timestamp_ns, metric, value FROM gpu_sample ORDER BY ALL").rows()
    export(traces, elsewhere / "made.pftrace")
    file = read(elsewhere / "made.pftrace")
    metrics = [one for one in file.counters if one[0][0].startswith(("Metrics", "GPU metrics"))]
    assert sorted((at, track[-1], value) for track, at, value in metrics) == samples


@pytest.mark.slow
def test_times_before_the_start_of_the_trace(elsewhere: Path) -> None:
    tables = profile()
    tables[KERNEL] = [kernel(start=-500, end=-400)]
    file, _ = exported(write(elsewhere / "made.sqlite", tables), elsewhere)
    (first,) = file.of("kernel")
    assert (first.start, first.end) == (0, 100)
    assert all(found.start >= 0 for found in file.slices)


@pytest.mark.slow
def test_what_cannot_be_exported(elsewhere: Path) -> None:
    traces = tbd_trace.open(SAMPLE)
    with pytest.raises(UsageError, match=r"expected a name that ends in \.pftrace"):
        export(traces, elsewhere / "sample.json")
    with pytest.raises(CannotAnswerError, match="no timeline"):
        export(tbd_trace.open(SAMPLE / "metrics.csv"), elsewhere / "sample.pftrace")
    both = tbd_trace.open(SAMPLE / "timeline.sqlite", made(elsewhere))
    with pytest.raises(UsageError, match="several timelines"):
        export(both, elsewhere / "sample.pftrace")
    with pytest.raises(TbdTraceError, match="cannot be written"):
        export(traces, elsewhere / "nowhere" / "sample.pftrace")
    assert not list(elsewhere.glob("*sample.pftrace*"))


@pytest.mark.slow
@pytest.mark.parametrize("source", [pytest.param("sample", marks=nightly), "made"])
def test_the_trace_processor_reads_it(elsewhere: Path, source: str) -> None:
    path = elsewhere / "out.pftrace"
    written = export(tbd_trace.open(SAMPLE if source == "sample" else made(elsewhere)), path)
    file = read(path)
    problems, slices, flows, threads = ask(
        path,
        "SELECT name, value FROM stats WHERE value > 0 AND severity IN ('error', 'data_loss')",
        "SELECT category, count(*), sum(dur) FROM slice WHERE dur >= 0 GROUP BY category",
        "SELECT a.name, b.name FROM flow f JOIN slice a ON a.id = f.slice_out "
        "JOIN slice b ON b.id = f.slice_in",
        "SELECT DISTINCT t.tid FROM thread t WHERE t.tid > 0",
    )
    assert problems == []
    seen = {category: (count, total) for category, count, total in slices}
    for category, count in written.slices.items():
        total = sum(found.end - found.start for found in file.of(category))
        extra = written.instants if category == "nvtx" else 0  # instants are slices of length 0
        assert seen[category] == (count + extra, total)
    assert len(flows) == sum(len(found.ends) for found in file.slices)
    assert {tid for (tid,) in threads} >= set(file.threads)
