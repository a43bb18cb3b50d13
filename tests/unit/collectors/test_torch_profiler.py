"""The plan of a run under torch.profiler, the check of its trace, and when it is the default."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import made_kineto as made
from collector_stand_ins import programs
from tbd_collectors import gpu_detection, torch_profiler
from tbd_collectors.collect import capability
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.plan import runs
from tbd_collectors.process import CollectionError, NoRangesError, NothingRecordedError
from tbd_collectors.profile_stats import Contents
from tbd_collectors.torch_profiler import FILE, PROFILER, WRITTEN, check
from tbd_collectors.usual_profiler import usual_profiler
from tbd_models.instrument.marks import TRACE_VARIABLE
from tbd_trace.cli.main import app
from tbd_trace.errors import UsageError
from tbd_trace.machine import amd_gpu, inspection

TORCH = Profiling(timeline="torch", counters=False, throughput=False)
RANGE = made.event("user_annotation", "iteration 0", 0, 100)


# Plan.


def test_a_workload_records_itself(tmp_path: Path) -> None:
    (run,) = runs(Workload("bert", device="cpu", warmup=2, iterations=5), TORCH, tmp_path, None)
    assert (run.name, run.tool, run.output) == ("timeline", "torch", tmp_path / WRITTEN)
    assert run.argv[:5] == [sys.executable, "-m", "tbd_models", "run", "bert"]
    assert run.argv[run.argv.index("--torch-trace") + 1] == str(tmp_path / WRITTEN)
    assert run.argv[run.argv.index("--layers") + 1] == str(tmp_path / "layers.json")
    assert not {"--nvtx", "--torch-memory"} & set(run.argv)


def test_allocations_are_recorded_on_request(tmp_path: Path) -> None:
    profiling = Profiling(timeline="torch", throughput=False, memory_usage=True, gpu_metrics=True)
    notes: list[str] = []
    (run,) = runs(Workload("bert", device="cpu"), profiling, tmp_path, None, notes=notes)
    assert "--torch-memory" in run.argv
    assert notes == ["this torch has no --gpu-metrics, which was left out"]


def test_a_command_gets_the_request_in_a_variable(tmp_path: Path) -> None:
    target = Command(("python", "t.py"), device="cpu", iterations=4)
    (run,) = runs(target, TORCH, tmp_path, None)
    assert run.argv == ["python", "t.py"]
    assert json.loads(run.environment[TRACE_VARIABLE]) == {
        "trace": str(tmp_path / WRITTEN),
        "report": str(tmp_path / "timeline.json"),
        "iterations": 4,
        "warmup": None,
        "memory": False,
    }


def test_what_it_cannot_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not record mxnet; use --profiler nsys"):
        runs(Workload("bert", framework="mxnet"), TORCH, tmp_path, None)
    with pytest.raises(UsageError, match="--warmup and --iterations choose"):
        runs(Command(("python",), capture_range="epoch"), TORCH, tmp_path, None)


# Check.


def test_a_trace_with_ranges_is_accepted(tmp_path: Path) -> None:
    events = [RANGE, made.launch(5, 1), made.kernel(20, 5, 1)]
    found = check(made.write(tmp_path / FILE, made.document(events)), gpu=True)
    assert (found.ranges, found.kernels, found.api_calls) == (1, 1, 1)


@pytest.mark.parametrize(
    ("events", "gpu", "message"),
    [
        ([made.operator("aten::mm", 3)], False, "holds no ranges, so iterations are unknown"),
        ([RANGE, made.operator("aten::mm", 3)], True, "holds no kernels: the program did not use"),
    ],
)
def test_a_trace_without_the_events_is_refused(
    tmp_path: Path, events: list[made.Event], gpu: bool, message: str
) -> None:
    trace = made.write(tmp_path / FILE, made.document(events))
    with pytest.raises(NothingRecordedError, match=message):
        check(trace, gpu=gpu)


def test_events_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [RANGE, made.launch(5, 1), made.kernel(20, 5, 1), made.kernel(30, 5, 1)]
    trace = made.write(tmp_path / FILE, made.document(events * 5))
    for size in (7, 64, 100, 1 << 20):
        monkeypatch.setattr(torch_profiler, "_BLOCK", size)
        assert torch_profiler.count(trace) == Contents(5, 10, 5)


def test_a_truncated_trace_is_counted_as_far_as_it_goes(tmp_path: Path) -> None:
    trace = made.write(tmp_path / FILE, made.document([RANGE] * 500))
    trace.write_bytes(trace.read_bytes()[:-200])
    assert 0 < torch_profiler.count(trace).ranges < 500


def test_a_trace_is_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = runs(Command(("t",), device="cpu"), TORCH, tmp_path, None)
    content = json.dumps(made.document([RANGE])).encode()
    run.output.write_bytes(content)
    assert PROFILER.timelines is not None
    said: list[str] = []
    trace = PROFILER.timelines.profile(run, (), said.append)
    assert [path.name for path in tmp_path.iterdir()] == [FILE] == [trace.name]
    assert gzip.decompress(trace.read_bytes()) == content
    assert said == ["compressing the trace"]
    with pytest.raises(NoRangesError, match=r"^nothing was recorded$"):
        PROFILER.timelines.profile(run, (), said.append)
    monkeypatch.setattr(torch_profiler, "_LEAST_FREE", 1 << 60)
    with pytest.raises(CollectionError, match="the disk is full; free space, or choose another"):
        PROFILER.timelines.profile(run, (), said.append)


# Default.

CPU, CUDA = Workload("bert", device="cpu"), Workload("bert")
COMMAND = Command(("python", "t.py"), device="cpu")
PYTORCH = Command((sys.executable, "t.py"), device="cpu")
TENSORFLOW = Workload("bert", framework="tensorflow", device="cpu")


@pytest.mark.parametrize(
    ("target", "has_nsys", "expected"),
    [
        (CPU, True, ("torch", "without a GPU, nsys records no operators")),
        (CUDA, True, ("nsys", "")),
        (COMMAND, True, ("nsys", "")),  # python is not on PATH
        (PYTORCH, True, ("torch", "without a GPU, nsys records no operators")),
        (Command(("torchrun", "t.py"), device="cpu"), True, ("torch", "without a GPU, nsys")),
        (Command((sys.executable, "t.py")), True, ("nsys", "")),
        (Command((sys.executable, "t.py"), "cpu", "step@mine"), True, ("nsys", "")),
        (Command(("./train", "t.py"), device="cpu"), True, ("nsys", "")),
        (TENSORFLOW, True, ("nsys", "")),
        (CPU, False, ("torch", "nsys is not on PATH")),
        (CUDA, False, ("torch", "nsys is not on PATH")),
        (COMMAND, False, ("torch", "nsys is not on PATH")),
        (TENSORFLOW, False, ("nsys", "")),
    ],
)
def test_the_default(
    target: Workload | Command,
    has_nsys: bool,
    expected: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs(tmp_path, monkeypatch, **({"nsys": ""} if has_nsys else {}))
    name, reason = usual_profiler(target)
    assert (name, reason.startswith(expected[1])) == (expected[0], True)


def shown(tmp_path: Path, *options: str) -> tuple[str, str]:
    words = ["collect", "resnet50", "--device", "cpu", "--dry-run", "--python", sys.executable]
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "c"), *options])
    assert done.exit_code == 0, done.stderr
    return done.stdout, done.stderr


def test_the_choice_is_explained_and_a_named_profiler_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, monkeypatch)
    printed, said = shown(tmp_path)
    assert f"--torch-trace {tmp_path}/c/{WRITTEN}" in printed
    assert said == (
        "note: nsys is not on PATH, so torch.profiler records the timeline; "
        "--profiler chooses another\n"
    )
    printed, said = shown(tmp_path, "--profiler", "nsys")
    assert "nsys profile" in printed
    assert "torch" not in said
    assert shown(tmp_path, "--profiler", "torch")[1] == ""


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ([], "the whole model trains on the CPU, which takes minutes to hours; --device cpu --sc"),
        (["--scale", "small"], "so the model trains on the CPU"),
        (["--device", "cpu"], None),
    ],
)
def test_a_missing_gpu_is_reported_first(
    options: list[str], warning: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, monkeypatch)
    words = ["collect", "resnet50", "--dry-run", "--python", sys.executable, *options]
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "c")])
    assert done.exit_code == 0, done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith("note: there is no GPU here") == (warning is not None)
    assert warning is None or warning in first


# AMD GPUs.


@pytest.fixture
def amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a list of processors as the driver of a machine with one MI210 shows it."""
    for number, (units, version) in enumerate([(0, 0), (416, 90010)]):
        node = tmp_path / "nodes" / str(number)
        node.mkdir(parents=True)
        lines = f"cpu_cores_count 64\nsimd_count {units}\ngfx_target_version {version}\n"
        (node / "properties").write_text(lines)
    monkeypatch.setattr(amd_gpu, "_NODES", tmp_path / "nodes")
    programs(tmp_path, monkeypatch, nsys="")


@pytest.mark.usefixtures("amd")
def test_amd_gpus_are_found_and_recorded_with_torch() -> None:
    assert amd_gpu.architectures() == ["gfx90a"]
    (found,) = inspection.gpus()
    assert (found.status, found.found) == ("limited", "AMD gfx90a")
    assert "--device cuda --profiler torch" in found.advice
    assert gpu_detection.gpus() == []
    assert capability(CUDA) is None  # neither counters nor an error
    assert usual_profiler(CUDA) == ("torch", "nsys does not record AMD GPUs")
    assert usual_profiler(Command(("train",))) == ("torch", "nsys does not record AMD GPUs")


@pytest.mark.usefixtures("amd")
@pytest.mark.parametrize(("version", "device"), [("2.9.0+rocm6.4", "cuda"), ("2.9.0+cpu", "cpu")])
def test_pytorch_for_rocm_makes_the_gpu_the_default(
    version: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        inspection, "interpreter", lambda _python: {"python": "3", "torch": version}
    )
    words = ["collect", "resnet50", "--dry-run", "--python", "python", "-o", str(tmp_path / "c")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert f"--device {device}" in done.stdout
    assert "--torch-trace" in done.stdout


@pytest.mark.usefixtures("amd")
def test_integrated_graphics_beside_an_nvidia_gpu_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvidia = gpu_detection.Gpu("NVIDIA A100", "8.0")
    monkeypatch.setattr(gpu_detection, "gpus", lambda: [nvidia])
    assert capability(CUDA) == "8.0"
    assert usual_profiler(CUDA) == ("nsys", "")


def test_without_the_driver_there_are_no_amd_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amd_gpu, "_NODES", tmp_path)
    assert amd_gpu.architectures() == []
    with pytest.raises(UsageError, match="there is no GPU here"):
        programs(tmp_path, monkeypatch)
        capability(CUDA)


def test_the_doctor_finds_it(tmp_path: Path) -> None:
    missing = inspection.torch_profiler(str(tmp_path / "python"))
    assert (missing.check, missing.status) == ("torch", "missing")
    assert "env create pytorch" in missing.advice
