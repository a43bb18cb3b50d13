"""Counting with nvprof and Nsight Compute, and the GPUs to count on, without any of them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from collector_stand_ins import programs
from corpus import ROOT, matching, reference_rows
from made_nvprof import Row, Rows, kernel, make
from tbd_collectors import gpu_detection, nsight_compute, nvprof, profile_stats
from tbd_collectors.nsight_compute import CountersNotPermittedError
from tbd_collectors.process import CollectionError, NothingRecordedError
from tbd_trace.errors import UsageError

CAPABILITIES = list(gpu_detection.CHIPS)


def counters(metrics: Iterable[str]) -> list[str]:
    """Return the metrics that the hardware counts: all but the launch configuration."""
    return [name for name in metrics if not name.startswith("launch__")]


# --- nvprof ---------------------------------------------------------------------------------------


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return programs(tmp_path, monkeypatch, nvprof="", ncu="")


def test_nvprof_timeline(tools: Path, tmp_path: Path) -> None:
    argv = nvprof.timeline_command(["python", "t.py"], tmp_path / "50%", "7.5")
    assert argv == [
        str(tools / "nvprof"), "--profile-from-start", "off", "--unified-memory-profiling", "off",
        "--openacc-profiling", "off", "--export-profile", f"{tmp_path}/50%%", "--force-overwrite",
        "python", "t.py",
    ]  # fmt: skip
    whole = nvprof.timeline_command(["true"], tmp_path / "p", "7.5", whole_run=True)
    assert whole[1:3] == ["--profile-from-start", "on"]


@pytest.mark.parametrize("capability", ["8.0", "8.6", "10.0", "12.0"])
def test_nvprof_refuses_new_gpus(tools: Path, capability: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"only those before 8\.0: use nsys") as caught:
        nvprof.timeline_command(["true"], tmp_path / "p", capability)
    assert caught.value.exit_code == 2
    with pytest.raises(UsageError, match=r"only on those before 7\.5: use ncu"):
        nvprof.metric_command(["true"], tmp_path / "m", capability)


def test_nvprof_traces_turing_but_does_not_count_on_it(tools: Path, tmp_path: Path) -> None:
    nvprof.timeline_command(["true"], tmp_path / "p", "7.5")
    with pytest.raises(UsageError, match=r"does not count on compute capability 7\.5"):
        nvprof.metric_command(["true"], tmp_path / "m", "7.5")


@pytest.mark.parametrize("capability", ["", "8", "sm_80", "8.0.1", "-1.0"])
def test_what_is_no_compute_capability(capability: str) -> None:
    with pytest.raises(UsageError, match="is an invalid compute capability; write it like"):
        nsight_compute.select(capability)


def test_nvprof_metric_command(tools: Path, tmp_path: Path) -> None:
    output = tmp_path / "50%.nvvp"
    argv = nvprof.metric_command(["true"], output, "7.0")
    metrics = argv[argv.index("--metrics") + 1].split(",")
    assert {"single_precision_fu_utilization", "achieved_occupancy"} < set(metrics)
    assert {"flop_count_sp", "flop_count_hp", "tensor_precision_fu_utilization"} < set(metrics)
    assert argv[argv.index("--export-profile") + 1] == f"{tmp_path}/50%%.nvvp"
    assert argv[argv.index("--replay-mode") + 1] == "kernel"
    output.touch()
    with pytest.raises(UsageError, match=r"50%\.nvvp exists already"):
        nvprof.metric_command(["true"], output, "7.0")


@pytest.mark.parametrize(("capability", "base"), [("6.0", 0x130), ("7.0", 0x140)])
def test_nvprof_metrics_exist(capability: str, base: int) -> None:
    """The ids of a chip's metrics begin with the same number; files hold ids of real profiles."""
    with (ROOT / "data" / "nvprof_metrics.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["record"] == "metric"]
    exist = {row["name"] for row in rows if int(row["id"]) >> 16 == base}
    chosen = nvprof.select(capability)
    assert len(chosen) >= 10
    assert set(chosen) <= exist
    assert ("tensor_precision_fu_utilization" in chosen) == (capability == "7.0")


def metrics(*correlations: int) -> list[Row]:
    """Return values of metric 1, one for each correlation id."""
    return [{"id": 1, "correlationId": number, "value": bytes(8)} for number in correlations]


def test_nvprof_counts(tmp_path: Path) -> None:
    rows = {"KERNEL": [kernel(correlation=n) for n in (3, 4, 5)], "METRIC": metrics(3, 3, 4, 4)}
    assert nvprof.check_metrics(make(tmp_path / "m.nvvp", ["k"], rows)) == 2


@pytest.mark.parametrize("rows", [{"METRIC": []}, {"KERNEL": [kernel()]}])
def test_nvprof_that_counts_nothing(rows: Rows, tmp_path: Path) -> None:
    path = make(tmp_path / "m.nvvp", ["k"], rows)
    with pytest.raises(NothingRecordedError, match=r"m\.nvvp: nvprof counted no kernels \(.* No k"):
        nvprof.check_metrics(path, ["==9== Warning: No kernels were profiled.", "loss 0.1"])


def test_nvprof_that_may_not_count(tmp_path: Path) -> None:
    said = ["==9== Warning: ERR_NVGPUCTRPERM - The user does not have permission", "loss 0.1"]
    with pytest.raises(CountersNotPermittedError):
        nvprof.check_metrics(tmp_path / "m.nvvp", said)
    with pytest.raises(NothingRecordedError, match=r"nvprof wrote no .*m\.nvvp"):
        nvprof.check_metrics(tmp_path / "m.nvvp")
    path = tmp_path / "text.nvvp"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(CollectionError, match=r"not a profile in SQLite"):
        nvprof.check_metrics(path)


def test_nvprof_counts_of_real_metric_runs() -> None:
    """Every kernel of these runs was counted, and their number is that of their kernels."""
    for path in matching("nvprof/*traffic-simulation__metrics*"):
        assert nvprof.check_metrics(path) == profile_stats.count_nvprof(path).kernels > 0


# --- Nsight Compute -------------------------------------------------------------------------------


def test_ncu_command(tools: Path, tmp_path: Path) -> None:
    options = nsight_compute.NcuOptions(("a.sum", "b.max"), launch_count=7)
    argv = nsight_compute.command(["python", "t.py"], tmp_path / "m.csv", options)
    assert argv == [
        str(tools / "ncu"), "--csv", "--page", "raw", "--print-units", "base",
        "--metrics", "a.sum,b.max", "--profile-from-start", "off", "--clock-control", "none",
        "--target-processes", "all", "--replay-mode", "kernel", "--launch-count", "7",
        "--log-file", str(tmp_path / "m.csv"), "python", "t.py",
    ]  # fmt: skip
    everything = nsight_compute.command(
        ["true"], tmp_path / "m.csv", nsight_compute.NcuOptions(("a.sum",), whole_run=True)
    )
    assert everything[everything.index("--profile-from-start") + 1] == "on"
    assert "--launch-count" not in everything
    with pytest.raises(UsageError, match="name at least one"):
        nsight_compute.command(["true"], tmp_path / "m.csv", nsight_compute.NcuOptions(()))
    (tmp_path / "m.csv").touch()
    with pytest.raises(UsageError, match=r"m\.csv exists already"):
        nsight_compute.command(["true"], tmp_path / "m.csv", options)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_ncu_metrics_are_available(capability: str) -> None:
    rows = reference_rows("ncu_metric_availability.csv")
    columns = [name for name in rows[0] if name.endswith(f"_cc{capability}")]
    if not columns:
        pytest.skip(f"the reference table lacks compute capability {capability}")
    available = {row["metric"] for row in rows for name in columns if row[name] == "1"}
    chosen = set(counters(nsight_compute.select(capability).metrics))
    assert {name.partition(".")[0] for name in chosen} <= available
    every = {row["metric"] for row in gpu_detection.read_table("nsight_compute.csv")}
    left_out = {name.partition(".")[0] for name in set(counters(every)) - chosen}
    assert not left_out & available


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_queries_understand_the_metrics(capability: str) -> None:
    """What is collected answers the FLOP and pipe use of every precision that it should."""
    with (ROOT / "data" / "utilization_metrics.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["tool"] == "ncu"]
    metrics = nsight_compute.select(capability).metrics
    answered = {
        (row["precision"], row["quantity"])
        for row in rows
        if any(re.search(row["pattern"], metric) for metric in metrics)
    }
    pipes = {(p, q) for p in ("fp32", "fp16", "tensor") for q in ("pipe_active", "pipe_elapsed")}
    assert answered >= {("fp32", "flop"), ("fp16", "flop"), ("cycles", "cycles"), *pipes}
    for row in rows:
        if row["quantity"] == "flop" and row["required"] == "true":
            assert any(re.search(row["pattern"], metric) for metric in metrics)
    assert "sm__warps_active.avg.pct_of_peak_sustained_active" in metrics


def test_launch_metrics_exist() -> None:
    """They are in real output, and the reader makes launch configurations of them."""
    (path,) = matching("ncu/*raw_unitsbase_fp.csv")
    with path.open(encoding="utf-8") as file:
        header = next(csv.reader(file))
    launch = set(nsight_compute.select("8.0").metrics) - set(
        counters(nsight_compute.select("8.0").metrics)
    )
    assert len(launch) == 9
    assert launch <= set(header)


def test_missing_metrics_are_named() -> None:
    fp16 = ("FP16 pipe per active cycle", "FP16 pipe per elapsed cycle")
    memory = ("bytes read from device memory", "bytes written to device memory")
    assert nsight_compute.select("9.0").missing == ()
    assert nsight_compute.select("12.0").missing == memory
    everywhere = nsight_compute.select("13.7")
    assert set(everywhere.missing) == {*fp16, *memory, "bytes of device memory"}
    for capability in CAPABILITIES:
        assert set(everywhere.metrics) <= set(nsight_compute.select(capability).metrics)


def test_metrics_that_this_ncu_does_not_know() -> None:
    known = {"gpu__time_duration", "sm__warps_active"}
    chosen = nsight_compute.select("8.0", known)
    assert [name.partition(".")[0] for name in counters(chosen.metrics)] == [
        "gpu__time_duration", "sm__warps_active",
    ]  # fmt: skip
    assert "FP32 multiply-adds" in chosen.missing
    with pytest.raises(UsageError, match=r"needs compute capability 7\.0.*use nvprof"):
        nsight_compute.select("6.1")


def test_what_ncu_says_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = "Chip ga100\n-----\nMetric Name   Metric Type\ndram__bytes   Counter\nsm__x_y  Ratio"
    programs(tmp_path, monkeypatch, ncu=listing)
    assert nsight_compute.known_metrics("8.0") == {"dram__bytes", "sm__x_y"}
    assert nsight_compute.known_metrics("13.7") is None


def test_ncu_counts(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(
        "==PROF== Connected to process 1\n==PROF== Disconnected\n"
        '"ID","Process ID","Kernel Name","a.sum"\n"","","","byte"\n'
        '"0","1","f(float\n*)","1"\n"1","1","g","2"\n'
    )
    assert nsight_compute.check(path) == 2


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU",
            CountersNotPermittedError,
            "NVreg_RestrictProfilingToAdminUsers=0, or run as root",
        ),
        (
            "==WARNING== No kernels were profiled.\n",
            NothingRecordedError,
            r"\(its output: No kernels were profiled\.\)",
        ),
        (None, NothingRecordedError, r"\(its output: nothing\)"),
    ],
)
def test_ncu_that_counts_nothing(
    text: str | None, kind: type[Exception], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(kind, match=message):
        nsight_compute.check(path)
    if text is not None:  # it may say so on its output as well
        with pytest.raises(kind, match=message):
            nsight_compute.check(tmp_path / "missing.csv", text.splitlines())


# --- GPUs -----------------------------------------------------------------------------------------


def test_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, nvidia_smi="NVIDIA A100-SXM4-80GB, 8.0\nTesla V100, x, 7.0")
    assert gpu_detection.gpus() == [
        gpu_detection.Gpu("NVIDIA A100-SXM4-80GB", "8.0"),
        gpu_detection.Gpu("Tesla V100, x", "7.0"),
    ]


@pytest.mark.parametrize("said", ["Field 'compute_cap' is not a valid field", "A100, [N/A]"])
def test_driver_that_is_too_old(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, nvidia_smi=said)
    with pytest.raises(CollectionError, match="does not report the compute capability, but: "):
        gpu_detection.gpus()


def test_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = programs(tmp_path, monkeypatch)
    assert gpu_detection.gpus() == []
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho No devices were found\nexit 6\n")
    (folder / "nvidia-smi").chmod(0o755)
    assert gpu_detection.gpus() == []
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho could not talk to the driver >&2\nexit 9\n")
    with pytest.raises(CollectionError, match="nvidia-smi failed: could not talk to the driver"):
        gpu_detection.gpus()


def test_every_chip_is_in_the_table() -> None:
    (row, *_) = gpu_detection.read_table("nsight_compute.csv")
    assert set(gpu_detection.CHIPS.values()) == set(row) - {"quantity", "metric"}
