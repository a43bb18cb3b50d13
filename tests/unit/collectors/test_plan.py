"""From words to targets, from targets to runs; profilers are stand-ins."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector_stand_ins import programs
from tbd_collectors import argument_parsing
from tbd_collectors.choices import Execution, Framework, Precision, Scale
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.plan import runs
from tbd_collectors.process import CollectionError
from tbd_models.definition import PRECISIONS, SCALES
from tbd_models.registry import FRAMEWORKS, NAMES, find, is_implemented
from tbd_models.settings import EXECUTIONS
from tbd_trace.errors import UsageError

OPTIONS: dict[str, Any] = {"framework": "pytorch", "variant": None, "scale": "full"}
NSYS = """NVIDIA Nsight Systems version 2024.2.3.38
   --capture-range=
   --capture-range-end=
   --cpuctxsw=
   --cuda-memory-usage=
   --force-overwrite=
   --gpu-metrics-device=
   --nvtx-capture=
   -o, --output=
   -s, --sample=
   -t, --trace=
     Possible values are 'cuda', 'nvtx', 'osrt', 'cudnn' or 'cublas'.
   -w, --wait="""


@pytest.fixture
def profilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of profilers that is the whole PATH."""
    return programs(tmp_path, monkeypatch, nsys=NSYS, nvprof="", ncu="sm__warps_active  warps")


def _command(*words: str, **options: Any) -> Command:
    return Command(words or ("python", "t.py"), **options)


# Words.


def test_commands_are_distinguished_from_models(profilers: Path) -> None:
    (profilers / "resnet50").touch(0o755)
    assert argument_parsing.is_command(["nsys"])
    assert argument_parsing.is_command(["python", "train.py"])
    assert argument_parsing.is_command(["resnet50", "bert"])
    for words in ([], ["resnet50"], ["resnet51"], ["train.py"]):
        assert not argument_parsing.is_command(words)


def test_batch_sizes_default_to_those_of_the_scale() -> None:
    for name in argument_parsing.suite("pytorch"):
        variant = find(name).variant(None, "pytorch")
        for scale, size in (
            ("full", variant.default_batch_size),
            ("small", variant.small_batch_size),
        ):
            (made,) = argument_parsing.workloads([name], [], OPTIONS | {"scale": scale})
            assert (made.model, made.batch_size, made.scale) == (name, size, scale)


def test_every_model_gets_every_batch_size() -> None:
    made = argument_parsing.workloads(["resnet50", "bert"], [4, 8], OPTIONS | {"seed": 3})
    found = [(w.model, w.batch_size, w.seed) for w in made]
    assert found == [("resnet50", 4, 3), ("resnet50", 8, 3), ("bert", 4, 3), ("bert", 8, 3)]
    assert len({w.title() for w in made}) == 4


@pytest.mark.parametrize("sizes", [[], [4]])
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet51", {}, "did you mean resnet50"),
        ("bert", {"variant": "x"}, "bert has no variant 'x'"),
        ("bert", {"framework": "caffe"}, "not implemented in caffe; see tbd-trace models"),
    ],
)
def test_unknown_names_are_refused_before_anything_runs(
    sizes: list[int], name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        argument_parsing.workloads([name], sizes, OPTIONS | options)


def test_a_model_that_pytorch_has_not_is_taken_from_the_framework_that_has_it() -> None:
    assert argument_parsing.usual_framework(["resnet50"]) == "pytorch"
    assert argument_parsing.usual_framework(["wgan"]) == "tensorflow"
    assert argument_parsing.usual_framework(["resnet50", "wgan"]) == "tensorflow"
    assert argument_parsing.usual_framework([]) == "pytorch"  # the whole suite
    assert argument_parsing.usual_framework(["wgna"]) == "pytorch"  # which then names the nearest


def test_a_suite_is_what_a_framework_has() -> None:
    assert argument_parsing.suite("pytorch") == [n for n in NAMES if is_implemented(n, "pytorch")]
    with pytest.raises(UsageError, match="no model is implemented in caffe"):
        argument_parsing.suite("caffe")


@given(st.lists(st.integers(1, 10**6), min_size=1), st.sampled_from([",", ", ", " ,"]))
def test_lists_of_batch_sizes_are_read(sizes: list[int], comma: str) -> None:
    assert argument_parsing.batch_sizes(comma.join(map(str, sizes))) == sizes


@pytest.mark.parametrize("text", ["", "0", "4,", "4,,8", "-1", "1.5", "4 8", "²", "all"])
def test_other_batch_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--batch-size {text!r}: write whole numbers")):
        argument_parsing.batch_sizes(text)


def test_no_batch_sizes_are_none() -> None:
    assert argument_parsing.batch_sizes(None) == []


def test_places_of_captures() -> None:
    model, command = Workload("bert", batch_size=2), _command("/opt/bin/train.sh")
    assert argument_parsing.places([model], Path("x"), several=False) == [Path("x")]
    assert argument_parsing.places([model], None, several=False) == [Path("bert-pytorch-fp32-bs2")]
    assert argument_parsing.places([model, command], Path("x"), several=True) == [
        Path("x/bert-pytorch-fp32-bs2"),
        Path("x/capture-train"),
    ]


def test_titles_distinguish_captures() -> None:
    plain = Workload("bert", batch_size=2)
    others = [
        plain.with_batch_size(4),
        Workload("bert", batch_size=2, variant="squad"),
        Workload("bert", batch_size=2, precision="mixed"),
        Workload("bert", batch_size=2, gradient_accumulation=2),
        Workload("bert", batch_size=2, activation_checkpointing=True),
        Workload("bert", batch_size=2, scale="small"),
        Workload("bert", batch_size=2, framework="mxnet"),
    ]
    assert len({w.title() for w in (plain, *others)}) == 8
    assert others[0].batch_size == 4


# Runs.


def test_a_workload_on_a_cpu(profilers: Path, tmp_path: Path) -> None:
    target = Workload("bert", device="cpu", warmup=2, iterations=5)
    throughput, timeline = runs(target, Profiling(), tmp_path, None)
    assert (throughput.name, throughput.tool) == ("throughput", None)
    assert throughput.argv[:5] == [sys.executable, "-m", "tbd_models", "run", "bert"]
    assert "--nvtx" not in throughput.argv
    assert "--layers" not in throughput.argv
    assert throughput.argv[-2:] == ["--report", str(tmp_path / "throughput.json")]
    assert (timeline.name, timeline.tool) == ("timeline", "nsys")
    assert timeline.argv[:2] == [str(profilers / "nsys"), "profile"]
    assert "--nvtx-capture=measured window@tbd_trace" in timeline.argv
    program = timeline.argv[timeline.argv.index(sys.executable) :]
    assert program[-1] == "--nvtx"
    assert program[program.index("--layers") + 1] == str(tmp_path / "layers.json")
    assert program[program.index("--warmup") + 1] == "2"


def test_a_workload_on_a_gpu_is_counted_in_a_short_run(profilers: Path, tmp_path: Path) -> None:
    target = Workload("bert", iterations=50, warmup=20)
    profiling = Profiling(counter_iterations=2)
    _, timeline, counters = runs(target, profiling, tmp_path, "8.0")
    assert "--capture-range=cudaProfilerApi" in timeline.argv
    assert (counters.name, counters.tool) == ("counters", "ncu")
    assert counters.argv[counters.argv.index("--profile-from-start") + 1] == "off"
    assert counters.argv[counters.argv.index("--iterations") + 1] == "2"
    assert counters.argv[counters.argv.index("--warmup") + 1] == "3"
    assert "--layers" not in counters.argv
    assert counters.output == tmp_path / "counters.csv"


@pytest.mark.parametrize(("capability", "tool"), [("6.1", "nvprof"), ("7.0", "ncu")])
def test_old_gpus_are_counted_with_nvprof(
    profilers: Path, tmp_path: Path, capability: str, tool: str
) -> None:
    assert runs(Workload("bert"), Profiling(), tmp_path, capability)[-1].tool == tool


def test_runs_can_be_left_out(profilers: Path, tmp_path: Path) -> None:
    profiling = Profiling(counters=False, throughput=False)
    assert [r.name for r in runs(Workload("bert"), profiling, tmp_path, "8.0")] == ["timeline"]


def test_more_can_be_recorded(profilers: Path, tmp_path: Path) -> None:
    profiling = Profiling(gpu_metrics=True, memory_usage=True, counters=False)
    *_, timeline = runs(Workload("bert"), profiling, tmp_path, "8.0")
    assert "--gpu-metrics-device=0" in timeline.argv
    assert "--cuda-memory-usage=true" in timeline.argv


@pytest.mark.parametrize(
    ("capture_range", "device", "present"),
    [
        (None, "cuda", "--capture-range=none"),
        (None, "cpu", "--capture-range=none"),
        ("cudaProfilerApi", "cuda", "--capture-range=cudaProfilerApi"),
        ("epoch 1@mine", "cuda", "--nvtx-capture=epoch 1@mine"),
        ("epoch 1@mine", "cpu", "--nvtx-capture=epoch 1@mine"),
    ],
)
def test_the_range_of_a_command(
    profilers: Path, tmp_path: Path, capture_range: str | None, device: str, present: str
) -> None:
    target = _command(capture_range=capture_range, device=device)
    capability = "8.0" if device == "cuda" else None
    timeline = runs(target, Profiling(), tmp_path, capability)[0]
    assert (timeline.name, timeline.argv[-2:]) == ("timeline", ["python", "t.py"])
    assert present in timeline.argv


@pytest.mark.parametrize(
    ("capture_range", "start"), [(None, "on"), ("cudaProfilerApi", "off"), ("epoch", "on")]
)
@pytest.mark.parametrize("capability", ["6.0", "7.0"])
def test_other_profilers_know_no_nvtx_range(
    profilers: Path, tmp_path: Path, capture_range: str | None, start: str, capability: str
) -> None:
    target = _command(capture_range=capture_range)
    made = runs(target, Profiling(timeline="nvprof"), tmp_path, capability)
    assert [run.name for run in made] == ["timeline", "counters"]
    for run in made:
        assert run.argv[run.argv.index("--profile-from-start") + 1] == start


def test_nvprof_records_gpus_that_it_knows(profilers: Path, tmp_path: Path) -> None:
    profiling = Profiling(timeline="nvprof", counters=False, throughput=False)
    (timeline,) = runs(Workload("bert"), profiling, tmp_path, "7.5")
    assert (timeline.tool, timeline.output) == ("nvprof", tmp_path / "timeline.nvvp")
    with pytest.raises(UsageError, match="there is no GPU; use nsys"):
        runs(Workload("bert", device="cpu"), profiling, tmp_path, None)
    with pytest.raises(UsageError, match=r"compute capability 9\.0"):
        runs(Workload("bert"), profiling, tmp_path, "9.0")


@pytest.mark.parametrize("name", ["nsys", "ncu"])
def test_a_profiler_that_is_missing_is_named(profilers: Path, tmp_path: Path, name: str) -> None:
    (profilers / name).unlink()
    with pytest.raises(CollectionError, match=f"{name} is not on PATH"):
        runs(Workload("bert"), Profiling(), tmp_path, "8.0")


def test_options_offer_the_words_of_the_workloads() -> None:
    assert tuple(Framework) == FRAMEWORKS
    assert tuple(Scale) == SCALES
    assert tuple(Precision) == PRECISIONS
    assert tuple(Execution) == EXECUTIONS
