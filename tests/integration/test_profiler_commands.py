"""The profilers' command lines, with the real profilers where they are installed.

None of these tests needs a GPU: what the profilers do without one is part of what is tested.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from nsys_agent import until_served
from tbd_collectors import nsight_compute, nsys, nvprof
from tbd_collectors.gpu_detection import CHIPS
from tbd_collectors.process import CollectionError, Completed, NothingRecordedError, run
from tbd_trace.errors import InputError, UsageError

pytestmark = pytest.mark.slow

ITERATIONS = """
import time
import nvtx

for number in range(5):
    with nvtx.annotate(f"iteration {number}", domain="tbd_trace"):
        with nvtx.annotate("phase:forward", domain="tbd_trace"):
            time.sleep(0.01)
time.sleep(0.5)
print("trained")
"""

ON_CPU = nsys.NsysOptions(gpu=False)
ONE_ITERATION = nsys.NsysOptions(gpu=False, range_name="iteration 2@tbd_trace")
# nsys 2022.4 fails now and then when a program ends before nsys has begun to wait for it.
SHORT = ["sleep", "0.5"]
EVERYTHING = nsys.NsysOptions(memory_usage=True, gpu_metrics="none")


@pytest.fixture
def perform(tmp_path: Path) -> Callable[[Sequence[str]], Completed]:
    def performed(argv: Sequence[str], timeout_s: float = 120) -> Completed:
        def once(_: int) -> Completed:
            return run(
                argv,
                environment=nsys.environment(),
                directory=tmp_path,
                timeout_s=timeout_s,
                log=tmp_path / "log.txt",
            )

        return until_served(once, lambda done: "\n".join(done.tail))

    return performed


Perform = Callable[..., Completed]


@pytest.fixture
def workload(tmp_path: Path) -> list[str]:
    pytest.importorskip("nvtx")
    path = tmp_path / "workload.py"
    path.write_text(ITERATIONS, encoding="utf-8")
    return [sys.executable, str(path)]


@pytest.mark.needs("nsys")
@pytest.mark.parametrize("options", [ON_CPU, ONE_ITERATION, EVERYTHING, nsys.NsysOptions()])
def test_nsys_accepts(options: nsys.NsysOptions, perform: Perform, tmp_path: Path) -> None:
    assert nsys.unavailable(options) == []
    perform(nsys.command(SHORT, tmp_path / "r", options)).require_success("nsys")


@pytest.mark.needs("nsys")
def test_nsys_refuses_what_it_does_not_know(perform: Perform, tmp_path: Path) -> None:
    """The control of the test above, and nsys's own words reach the user."""
    argv = nsys.command(SHORT, tmp_path / "r", ON_CPU)
    done = perform([*argv[:2], "--nonsense=1", *argv[2:]])
    with pytest.raises(CollectionError, match=r"^nsys failed with exit code 1: .*--nonsense=1"):
        done.require_success("nsys")
    done = perform([*argv[:2], "--trace=nonsense", *argv[3:]])
    with pytest.raises(CollectionError, match=r"^nsys failed with exit code 1: "):
        done.require_success("nsys")


@pytest.mark.needs("nsys")
@pytest.mark.parametrize(("options", "ranges"), [(ON_CPU, 10), (ONE_ITERATION, 2)])
def test_ranges_are_recorded(
    options: nsys.NsysOptions,
    ranges: int,
    perform: Perform,
    workload: list[str],
    tmp_path: Path,
) -> None:
    output = tmp_path / "100% of it.v1"
    done = perform(nsys.command(workload, output, options))
    done.require_success("nsys")
    assert "trained" in (tmp_path / "log.txt").read_text()
    report = nsys.report(output, done.tail)
    assert report == tmp_path / "100% of it.v1.nsys-rep"
    relative = Path(os.path.relpath(report))
    export = nsys.export(relative)
    assert export == relative.with_name("100% of it.v1.sqlite")
    assert nsys.check(export) == nsys.Contents(ranges=ranges, kernels=0, api_calls=0)
    with pytest.raises(NothingRecordedError, match="did not use the GPU"):
        nsys.check(export, gpu=True)
    with pytest.raises(UsageError, match=r"v1\.sqlite exists already"):
        nsys.export(report)
    with pytest.raises(UsageError, match=r"v1\.nsys-rep exists already"):
        nsys.command(workload, output, options)


@pytest.mark.needs("nsys")
def test_without_ranges(perform: Perform, tmp_path: Path) -> None:
    perform(nsys.command(SHORT, tmp_path / "r", ON_CPU)).require_success("nsys")
    export = nsys.export(nsys.report(tmp_path / "r"))
    with pytest.raises(NothingRecordedError, match=r"no NVTX ranges.* install nvtx==0\.2\.11"):
        nsys.check(export)


@pytest.mark.needs("nsys")
@pytest.mark.parametrize(
    "options", [nsys.NsysOptions(), nsys.NsysOptions(gpu=False, range_name="never@tbd_trace")]
)
def test_capture_range_that_never_begins(
    options: nsys.NsysOptions, perform: Perform, workload: list[str], tmp_path: Path
) -> None:
    done = perform(nsys.command(workload, tmp_path / "r", options))
    done.require_success("nsys")
    with pytest.raises(NothingRecordedError, match=r"wrote no report .*capture range never began"):
        nsys.report(tmp_path / "r", done.tail)


@pytest.mark.needs("nsys")
def test_report_is_written_when_time_is_up(perform: Perform, tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    source = "import time, nvtx\nwith nvtx.annotate('begun'): pass\ntime.sleep(60)"
    argv = nsys.command([sys.executable, "-c", source], tmp_path / "r", ON_CPU)
    done = perform(argv, timeout_s=4)
    assert done.timed_out
    assert done.seconds < 50
    assert nsys.check(nsys.export(nsys.report(tmp_path / "r"))).ranges == 1


@pytest.mark.needs("nsys")
def test_report_that_cannot_be_exported(tmp_path: Path) -> None:
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 1.\n" + bytes(1000))
    with pytest.raises(InputError, match=r"r\.nsys-rep: ") as caught:
        nsys.export(report)
    assert "\n" not in str(caught.value)


@pytest.mark.needs("nsys")
def test_stream_is_imported(perform: Perform, workload: list[str], tmp_path: Path) -> None:
    """Where nsys does not find its importer it leaves a stream."""
    if "QUADD_INSTALL_DIR" not in nsys.environment():
        pytest.skip("this nsys finds its importer without help")
    argv = nsys.command(workload, tmp_path / "r", ON_CPU)
    hidden = ["env", "-u", "QUADD_INSTALL_DIR", *argv]
    perform(hidden)
    stream = nsys.report(tmp_path / "r")
    assert stream.suffix == ".qdstrm"
    assert nsys.check(nsys.export(stream)).ranges == 10


@pytest.mark.needs("nvprof")
def test_nvprof_timeline(perform: Perform, tmp_path: Path) -> None:
    profile = tmp_path / "100%.nvprof"
    argv = nvprof.timeline_command(["true"], profile, "7.0")
    done = perform(argv)
    done.require_success("nvprof")
    with pytest.raises(NothingRecordedError, match=r"nvprof wrote no .* \(its output: \S"):
        nvprof.check_timeline(profile, done.tail)


@pytest.mark.needs("nvprof")
def test_nvprof_refuses_what_it_does_not_know(perform: Perform, tmp_path: Path) -> None:
    argv = nvprof.timeline_command(["true"], tmp_path / "p", "7.0")
    done = perform([argv[0], "--nonsense", *argv[1:]])
    with pytest.raises(CollectionError, match=r"^nvprof failed .*[Ii]nvalid option : --nonsense"):
        done.require_success("nvprof")


@pytest.mark.needs("nvprof")
def test_nvprof_metrics(perform: Perform, tmp_path: Path) -> None:
    """Without a GPU nvprof fails at the first metric, so the other options are tried alone."""
    argv = nvprof.metric_command(["true"], tmp_path / "m.nvvp", "7.0")
    first = argv.index("--metrics")
    others = [*argv[:first], *argv[first + 2 :]]
    perform(others).require_success("nvprof")
    for option in ("--replay-mode", "--profile-from-start", "--openacc-profiling"):
        place = others.index(option) + 1
        done = perform([*others[:place], "nonsense", *others[place + 1 :]])
        with pytest.raises(CollectionError, match=r"^nvprof failed .*nonsense"):
            done.require_success("nvprof")


@pytest.mark.needs("ncu")
def test_ncu(perform: Perform, tmp_path: Path) -> None:
    metrics = nsight_compute.select("8.0").metrics
    options = nsight_compute.NcuOptions(metrics, launch_count=5)
    argv = nsight_compute.command(["true"], tmp_path / "m.csv", options)
    done = perform(argv)
    done.require_success("ncu")
    with pytest.raises(
        NothingRecordedError, match=r"ncu counted no kernels \(its output: No kernels"
    ):
        nsight_compute.check(tmp_path / "m.csv", done.tail)
    (tmp_path / "m.csv").unlink()
    done = perform([argv[0], "--nonsense", *argv[1:]])
    with pytest.raises(CollectionError, match=r"^ncu failed .*--nonsense"):
        done.require_success("ncu")


@pytest.mark.needs("ncu")
@pytest.mark.parametrize("capability", CHIPS)
def test_ncu_knows_the_metrics(capability: str) -> None:
    known = nsight_compute.known_metrics(capability)
    if known is None:
        pytest.skip(f"this ncu is older than compute capability {capability}")
    assert len(known) > 1000
    assert nsight_compute.select(capability, known) == nsight_compute.select(capability)


@pytest.mark.needs("nsys")
def test_tools_without_a_program(perform: Perform, tmp_path: Path) -> None:
    done = perform(nsys.command(["/no/such/program"], tmp_path / "r", ON_CPU))
    with pytest.raises(CollectionError, match=r"/no/such/program"):
        done.require_success("nsys")
