"""The sample capture: what its README says, what the generator built, what the files hold."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate, combinations, pairwise
from pathlib import Path

import pytest

from corpus import ROOT, reference_rows
from make_sample import main, make_sample
from nsys_schema import RUNTIME_CALL, Runtime
from nsys_writer import NsysWriter
from sample_capture.cnn import small_cnn
from sample_capture.counters import iteration_kernels
from sample_capture.model import Kernel
from sample_capture.training import duration_ns

SAMPLES = ROOT / "data" / "samples"
CAPTURE = SAMPLES / "synthetic_cnn"
WINDOW = range(2, 12)
BASE_ITERATION = 6
FP32_PEAK = 108 * 64 * 2 * 1.41  # FLOP/ns
NO_LAYER = "(none)"
TENSOR_PEAK = 108 * 2048 * 1.41
OPERATIONS = {
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
    "copy": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "fill": "CUPTI_ACTIVITY_KIND_MEMSET",
}


def readme(heading: str, table: int = 0) -> list[dict[str, str]]:
    """Return a table of a section of the sample's README."""
    text = (SAMPLES / "README.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)[table].splitlines()
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


def number(text: str) -> float:
    return float(text.replace(",", ""))


ANSWERS = {row["question"]: number(row["answer"]) for row in readme("Answers")}


def union_ns(spans: list[tuple[int, int]]) -> int:
    """Length of a union, by counting how many spans are open between all their edges."""
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    total = depth = 0
    for (time, step), (following, _) in pairwise(edges):
        depth += step
        total += (following - time) * (depth > 0)
    return total


class Timeline:
    """The SQLite file, read without anything of this project."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        calls = "SELECT correlationId, start, end, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        self.calls: dict[int, tuple[int, int, int]] = {
            row[0]: row[1:] for row in self.connection.execute(calls)
        }
        texts = """SELECT coalesce(n.text, s.value), n.start, n.end, n.globalTid
            FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
            WHERE n.eventType = 59 ORDER BY n.start"""
        self.ranges = self.connection.execute(texts).fetchall()
        self.iterations = [r for r in self.ranges if re.fullmatch(r"iteration \d+", r[0])]
        self.starts: list[int] = [start for _, start, _, _ in self.iterations]

    def operations(self, kind: str) -> list[tuple[int, int, int]]:
        """Return start, end and correlation id of the operations of a kind."""
        table = OPERATIONS[kind]
        query = f"SELECT start, end, correlationId FROM {table} ORDER BY start"
        return self.connection.execute(query).fetchall()

    def iteration_of(self, correlation: int) -> int:
        call = self.calls[correlation][0]
        return sum(start <= call for start in self.starts) - 1

    def spans(self, iteration: int, *kinds: str) -> list[tuple[int, int]]:
        return [
            (start, end)
            for kind in kinds or OPERATIONS
            for start, end, correlation in self.operations(kind)
            if self.iteration_of(correlation) == iteration
        ]

    def layer_and_pass(self, correlation: int) -> tuple[str, str]:
        """Return layer and pass by the ranges around the launch on its own thread."""
        start, end, thread = self.calls[correlation]
        around = [
            text for text, s, e, tid in self.ranges if s < start and end <= e and tid == thread
        ]
        layers = [text for text in around if text.startswith("layer")]
        assert len(layers) <= 1
        if not layers:
            phases = [text.removeprefix("phase:") for text in around if text.startswith("phase:")]
            return NO_LAYER, " ".join(phases)
        kind, layer = layers[0].split(":", 1)
        return layer, "backward" if kind == "layer_backward" else "forward"


@pytest.fixture(scope="module")
def timeline() -> Iterator[Timeline]:
    opened = Timeline(CAPTURE / "timeline.sqlite")
    yield opened
    opened.connection.close()


@pytest.fixture(scope="module")
def counters() -> list[dict[str, str]]:
    with (CAPTURE / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))[1:]  # the first row holds the units


def dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_committed_capture_is_what_the_generator_makes(tmp_path: Path) -> None:
    make_sample(tmp_path)
    assert {f.name for f in tmp_path.iterdir()} == {f.name for f in CAPTURE.iterdir()}
    for name in ("capture.json", "layers.json", "metrics.csv"):
        assert (tmp_path / name).read_bytes() == (CAPTURE / name).read_bytes()
    assert dump(tmp_path / "timeline.sqlite") == dump(CAPTURE / "timeline.sqlite")


def test_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b", "b"):  # the second "b" replaces the first
        make_sample(tmp_path / name, iterations=5)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_capture_is_small_and_says_that_it_is_synthetic() -> None:
    assert sum(f.stat().st_size for f in CAPTURE.iterdir()) < 1_000_000
    capture = json.loads((CAPTURE / "capture.json").read_text(encoding="utf-8"))
    assert capture["synthetic"] is True
    assert {entry["file"] for entry in capture["files"]} == {"timeline.sqlite", "metrics.csv"}


def test_capture_fields_are_documented() -> None:
    page = ROOT / "docs/reference/capture_directory.md"
    documented = set(re.findall(r"`(\w+)`", page.read_text(encoding="utf-8")))
    capture = json.loads((CAPTURE / "capture.json").read_text(encoding="utf-8"))
    layers = json.loads((CAPTURE / "layers.json").read_text(encoding="utf-8"))
    used = {*capture, *capture["throughput"], *capture["files"][0], *layers, *layers["layers"][0]}
    assert used <= documented


def test_kernels_of_an_iteration(timeline: Timeline) -> None:
    rows = timeline.connection.execute(
        """SELECT k.correlationId, s.value, k.end - k.start, gridX * gridY * gridZ,
               blockX * blockY * blockZ, registersPerThread,
               staticSharedMemory + dynamicSharedMemory
           FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName
           ORDER BY k.start"""
    ).fetchall()
    measured = [
        (*timeline.layer_and_pass(correlation), *rest)
        for correlation, *rest in rows
        if timeline.iteration_of(correlation) == BASE_ITERATION
    ]
    columns = ("base ns", "grid", "threads", "registers", "shared bytes")
    expected = [
        (row["layer"], row["pass"], row["kernel"], *(number(row[c]) for c in columns))
        for row in readme("Kernels of an iteration")
    ]
    built = [
        (k.short_name, k.base_ns, k.blocks, k.threads, k.registers, sum(k.shared))
        for k in iteration_kernels(small_cnn())
    ]
    assert measured == expected
    assert built == [row[2:] for row in expected]


def test_occupancy_of_each_kernel(timeline: Timeline) -> None:
    for row, kernel in zip(
        readme("Kernels of an iteration"), iteration_kernels(small_cnn()), strict=True
    ):
        limits = resident_blocks(
            int(number(row["threads"])), int(number(row["registers"])), sum(kernel.shared)
        )
        blocks = min(limits.values())
        assert 100 * blocks * -(-kernel.threads // 32) / 64 == number(row["occupancy %"])
        assert kernel.occupancy_pct == number(row["occupancy %"])
        assert {r for r, n in limits.items() if n == blocks} == set(row["limited by"].split(", "))


def resident_blocks(threads: int, registers: int, shared: int) -> dict[str, int]:
    """Blocks per SM at compute capability 8.0, found by adding blocks until one does not fit."""
    warps = (threads + 31) // 32
    register_units = -(-registers * 32 // 256)
    shared_units = -(-shared // 128) + 8  # 1 KiB is reserved for each block
    limits = dict.fromkeys(("warps", "registers", "shared memory", "blocks"), 0)
    for blocks in range(1, 65):
        if blocks * warps <= 64:
            limits["warps"] = blocks
        # A warp's registers lie in one of four partitions of 64 units.
        if register_units == 0 or blocks * warps <= 4 * (64 // register_units):
            limits["registers"] = blocks
        if blocks * shared_units <= 167_936 // 128:
            limits["shared memory"] = blocks
        if blocks <= 32:
            limits["blocks"] = blocks
    return limits


def test_occupancy_oracle_agrees_with_the_vendor() -> None:
    rows = [row for row in reference_rows("occupancy_vectors.csv") if row["cc"] == "8.0"]
    assert len(rows) > 100
    for row in rows:
        threads, registers = int(row["block_threads"]), int(row["regs_per_thread"])
        shared = int(row["static_smem"]) + int(row["dynamic_smem"])
        active = int(row["active_blocks"])
        assert min(resident_blocks(threads, registers, shared).values()) == active
        if registers:
            kernel = Kernel("k", 400, (1, 1), threads, registers, (0, shared))
            assert min(kernel.residency) == active


def test_iterations(timeline: Timeline) -> None:
    for i, row in enumerate(readme("Iterations")):
        spans, kernels = timeline.spans(i), timeline.spans(i, "kernel")
        _, start, end, _ = timeline.iterations[i]
        assert number(row["start ns"]) == start
        assert number(row["host ns"]) == end - start
        assert number(row["gpu ns"]) == max(e for _, e in spans) - min(s for s, _ in spans)
        assert number(row["kernels"]) == len(kernels)
        assert number(row["kernel ns"]) == sum(e - s for s, e in kernels)
        assert number(row["busy ns"]) == union_ns(spans)
        assert number(row["sum ns"]) == sum(e - s for s, e in spans)
        following = [*timeline.starts[i + 1 :], end]
        assert number(row["period ns"]) == following[0] - start
        base = sum(duration_ns(k.base_ns, i) for k in iteration_kernels(small_cnn()))
        extra = duration_ns(600_000, 0) if i == 0 else 0
        assert number(row["kernel ns"]) == base + extra


def test_period_worked_out_by_hand(timeline: Timeline) -> None:
    until = 0.0
    for row in readme("Iterations", table=1):
        until += number(row["ns"])
        assert until == number(row["until"])
    assert until == timeline.starts[BASE_ITERATION + 1] - timeline.starts[BASE_ITERATION]


def test_stable_iterations_show_no_trend(timeline: Timeline) -> None:
    periods = [b - a for a, b in pairwise(timeline.starts)]
    stable = periods[WINDOW[0] :]
    assert statistics.stdev(stable) < 0.05 * statistics.mean(stable)
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(stable), 2)]
    assert abs(statistics.median(slopes)) * len(stable) < statistics.stdev(stable)
    assert min(periods[: WINDOW[0]]) > 1.1 * max(stable)


def test_idle_gaps(timeline: Timeline) -> None:
    operations = sorted(op for kind in OPERATIONS for op in timeline.operations(kind))
    iterations = [timeline.iteration_of(correlation) for _, _, correlation in operations]
    first = iterations.index(BASE_ITERATION)
    gaps = []
    busy_until = operations[first][1]
    for start, end, correlation in operations[first + 1 : iterations.index(BASE_ITERATION + 1) + 1]:
        if start > busy_until:
            within = timeline.iteration_of(correlation) == BASE_ITERATION
            before = " ".join(timeline.layer_and_pass(correlation))
            gaps.append((before if within else "the next batch's copy", start - busy_until))
        busy_until = max(busy_until, end)
    *named, queued = readme("Idle time")
    assert [gap for gap in gaps if gap[1] > 1000] == [
        (row["before"], number(row["ns each"])) for row in named
    ]
    assert Counter(gap for _, gap in gaps)[1000] == number(queued["gaps"])
    assert number(queued["ns each"]) == 1000
    busy = union_ns(timeline.spans(BASE_ITERATION))
    period = timeline.starts[BASE_ITERATION + 1] - timeline.starts[BASE_ITERATION]
    assert sum(gap for _, gap in gaps) == period - busy


def layer_definitions() -> list[dict[str, object]]:
    layers = json.loads((CAPTURE / "layers.json").read_text(encoding="utf-8"))["layers"]
    assert isinstance(layers, list)
    return layers


def flop(row: dict[str, str]) -> int:
    """FP32 operations that the counters of a kernel stand for."""
    prefix = "smsp__sass_thread_inst_executed_op_"
    fadd, fmul, ffma = (
        int(number(row[f"{prefix}{opcode}_pred_on.sum"])) for opcode in ("fadd", "fmul", "ffma")
    )
    return fadd + fmul + 2 * ffma


def tensor_flop(row: dict[str, str]) -> int:
    """Tensor-core operations; one HMMA instruction multiplies 16 x 16 by 16 x 8."""
    flop = int(number(row["sm__ops_path_tensor_src_fp16_dst_fp32.sum"]))
    assert flop == int(number(row["sm__inst_executed_pipe_tensor.sum"])) * 2 * 16 * 16 * 8
    return flop


def test_layers(timeline: Timeline, counters: list[dict[str, str]]) -> None:
    total: Counter[tuple[str, str]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    in_base = [
        (start, end, correlation)
        for start, end, correlation in timeline.operations("kernel")
        if timeline.iteration_of(correlation) == BASE_ITERATION
    ]
    for (start, end, correlation), row in zip(in_base, counters, strict=True):
        layer, part = timeline.layer_and_pass(correlation)
        total[layer, "forward" if part == "forward" else "backward"] += end - start
        counted[layer, "fp32"] += flop(row)
        counted[layer, "tensor"] += tensor_flop(row)
    modelled = {
        layer["name"]: 32 * (layer["forward_flop"] + layer["backward_flop"])  # type: ignore[operator]
        for layer in layer_definitions()
    }
    rows = readme("Layers")
    assert [row["layer"] for row in rows] == [*modelled, NO_LAYER]
    for row in rows:
        layer = row["layer"]
        assert number(row["forward ns"]) == total[layer, "forward"]
        assert number(row["backward ns"]) == total[layer, "backward"]
        assert number(row["counted FP32 FLOP"]) == counted[layer, "fp32"]
        assert number(row["tensor FLOP"]) == counted[layer, "tensor"]
        assert number(row["modelled FLOP"]) == modelled.get(layer, 0)


def test_layer_definitions_follow_from_the_shapes() -> None:
    conv1 = 2 * 64 * 3 * 3 * 3 * 32 * 32
    conv2 = 2 * 128 * 64 * 3 * 3 * 32 * 32
    linear = 2 * 8192 * 1000
    expected = {
        "conv1": (1728, conv1, conv1),
        "block1__conv2.0": (73_728, conv2, 2 * conv2),
        "fc": (8_193_000, linear + 1000, 2 * linear + 1000),
    }
    for layer in layer_definitions():
        if layer["name"] in expected:
            found = (layer["parameters"], layer["forward_flop"], layer["backward_flop"])
            assert found == expected[str(layer["name"])]
        width = 2 if layer["precision"] == "fp16" else 4
        assert layer["weight_bytes"] == layer["gradient_bytes"] == width * layer["parameters"]  # type: ignore[operator]


def test_answers_from_the_timeline(timeline: Timeline) -> None:
    kernels = [span for i in WINDOW for span in timeline.spans(i, "kernel")]
    everything = [span for i in WINDOW for span in timeline.spans(i)]
    kernel_ns, busy = sum(e - s for s, e in kernels), union_ns(everything)
    first, last = timeline.starts[WINDOW[0]], timeline.starts[WINDOW[-1]]
    period = (last - first) / 9
    assert ANSWERS["kernels after warm-up"] == len(kernels)
    assert ANSWERS["kernel time, ns"] == kernel_ns == union_ns(kernels)
    assert ANSWERS["busy time, ns"] == busy
    assert ANSWERS["sum of durations, ns"] == sum(e - s for s, e in everything)
    assert ANSWERS["first start to last start, ns"] == last - first
    end = timeline.iterations[WINDOW[-1]][2]
    assert ANSWERS["first start to end of the last range, ns"] == end - first
    assert ANSWERS["busy share of a period, %"] == rounded(10 * busy / period)
    assert ANSWERS["kernel share of a period, %"] == rounded(10 * kernel_ns / period)
    profiled = 9 * 32 / ((last - first) / 1e9)
    assert ANSWERS["throughput under the profiler, samples/s"] == rounded(profiled)
    run = json.loads((CAPTURE / "capture.json").read_text(encoding="utf-8"))["throughput"]
    free = run["iterations"] * 32 / run["seconds"]
    assert ANSWERS["throughput without it, samples/s"] == free == run["samples_per_second"]
    assert ANSWERS["distortion by the profiler, %"] == rounded(100 * (free / profiled - 1))


def rounded(value: float) -> float:
    return round(value, 4)


def test_answers_from_the_counters(timeline: Timeline, counters: list[dict[str, str]]) -> None:
    work = sum(flop(row) for row in counters)
    busy, kernel_ns = ANSWERS["busy time, ns"] / 10, ANSWERS["kernel time, ns"] / 10
    period = ANSWERS["first start to last start, ns"] / 9
    assert ANSWERS["counted FP32 FLOP per iteration"] == work
    for name, time in (("busy", busy), ("kernel", kernel_ns), ("elapsed", period)):
        utilization = 100 * work / (FP32_PEAK * time)
        assert ANSWERS[f"FP32 utilization over {name} time, %"] == rounded(utilization)
    tensor = sum(tensor_flop(row) for row in counters)
    tensor_ns = sum(
        1000 * number(row["gpu__time_duration.sum"]) - 300 for row in counters if tensor_flop(row)
    )
    over_kernels = 100 * tensor / (TENSOR_PEAK * tensor_ns)
    assert ANSWERS["tensor utilization over tensor kernels, %"] == rounded(over_kernels)
    over_elapsed = 100 * tensor / (TENSOR_PEAK * period)
    assert ANSWERS["tensor utilization over elapsed time, %"] == rounded(over_elapsed)
    cycles = [number(row["gpc__cycles_elapsed.max"]) for row in counters]
    fma = [
        number(row["sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"])
        for row in counters
    ]
    weighted = sum(c * p for c, p in zip(cycles, fma, strict=True)) / sum(cycles)
    # the file holds two decimals
    assert weighted == pytest.approx(
        ANSWERS["FMA pipe, cycle-weighted, of elapsed cycles, %"], abs=0.005
    )


def test_dominant_layer(timeline: Timeline) -> None:
    rows = readme("Layers")
    time = {row["layer"]: number(row["forward ns"]) + number(row["backward ns"]) for row in rows}
    total, unattributed = sum(time.values()), time[NO_LAYER]
    largest = max((name for name in time if name != NO_LAYER), key=time.__getitem__)
    assert largest == "block1__conv2.0"
    share = 100 * time[largest] / total
    assert ANSWERS["dominant layer, share of kernel time, %"] == rounded(share)
    attributed = 100 * time[largest] / (total - unattributed)
    assert ANSWERS["dominant layer, share of attributed kernel time, %"] == rounded(attributed)
    assert ANSWERS["unattributed kernel time, %"] == rounded(100 * unattributed / total)


def test_device_memory(timeline: Timeline) -> None:
    events = timeline.connection.execute(
        """SELECT bytes * CASE memoryOperationType WHEN 0 THEN 1 ELSE -1 END, address, correlationId
           FROM CUDA_GPU_MEMORY_USAGE_EVENTS ORDER BY start"""
    ).fetchall()
    used = list(accumulate(size for size, _, _ in events))
    set_up = sum(timeline.iteration_of(correlation) < 0 for _, _, correlation in events)
    assert used[set_up - 1] == used[-1] == ANSWERS["memory after set-up, bytes"]
    assert max(used) == ANSWERS["peak memory, bytes"]


def test_totals_by_kernel_name(timeline: Timeline) -> None:
    built: Counter[str] = Counter()
    for i in WINDOW:
        for kernel in iteration_kernels(small_cnn()):
            built[kernel.name] += duration_ns(kernel.base_ns, i)
    names = dict(
        timeline.connection.execute(
            """SELECT k.correlationId, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k
               JOIN StringIds s ON s.id = k.demangledName"""
        )
    )
    measured: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    for start, end, correlation in timeline.operations("kernel"):
        if timeline.iteration_of(correlation) in WINDOW:
            measured[names[correlation]] += end - start
            launches[names[correlation]] += 1
    expected = readme("Totals by kernel name")
    assert measured == built == {r["kernel"].strip("`"): number(r["total ns"]) for r in expected}
    assert launches == {r["kernel"].strip("`"): number(r["launches"]) for r in expected}


def test_counters_are_plausible(counters: list[dict[str, str]]) -> None:
    for row in counters:
        for name, text in row.items():
            if name.endswith(("_active", "_elapsed", "_pct")):
                assert 0 <= number(text) <= 100
        cycles = number(row["gpc__cycles_elapsed.max"])
        assert cycles == pytest.approx(1410 * number(row["gpu__time_duration.sum"]))
        fma = number(row["sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"])
        instructions = sum(
            number(row[f"smsp__sass_thread_inst_executed_op_{opcode}_pred_on.sum"])
            for opcode in ("fadd", "fmul", "ffma")
        )
        assert fma == pytest.approx(100 * instructions / 64 / (108 * cycles), abs=0.006)
        occupancy = number(row["sm__maximum_warps_per_active_cycle_pct"])
        achieved = number(row["sm__warps_active.avg.pct_of_peak_sustained_active"])
        assert 0 < achieved < occupancy


def test_counters_exist_on_the_chip(counters: list[dict[str, str]]) -> None:
    table = reference_rows("ncu_metric_availability.csv")
    available = {row["metric"]: row["GA100_cc8.0"] for row in table}
    listed = [name.split(".")[0] for name in counters[0] if name.split(".")[0] in available]
    assert len(listed) > 15
    assert all(available[name] == "1" for name in listed)


def test_ranges_follow_the_convention(timeline: Timeline) -> None:
    threads = dict(
        timeline.connection.execute(
            "SELECT globalTid, s.value FROM ThreadNames JOIN StringIds s ON s.id = nameId"
        )
    )
    layers = {str(layer["name"]) for layer in layer_definitions()}
    phases = {"data", "forward", "loss", "backward", "optimizer"}
    seen: dict[str, set[str]] = defaultdict(set)
    for text, _, _, thread in timeline.ranges:
        kind, _, name = text.partition(":")
        seen[kind].add(name)
        assert threads[thread] == ("pt_autograd_0" if kind == "layer_backward" else "python")
    iterations = {f"iteration {i}" for i in range(12)}
    assert {kind for kind in seen if kind.startswith("iteration")} == iterations
    assert seen["phase"] == phases
    assert seen["layer"] == seen["layer_backward"] == layers
    domain = timeline.connection.execute(
        "SELECT text, domainId FROM NVTX_EVENTS WHERE eventType = 75"
    ).fetchall()
    assert domain == [("tbd_trace", 1)]


def test_larger_samples(tmp_path: Path) -> None:
    main(["--output", str(tmp_path), "--iterations", "6", "--blocks", "3"])
    deeper = Timeline(tmp_path / "timeline.sqlite")
    # Each further block launches 3 kernels forward and 4 backward.
    per_iteration = [len(deeper.spans(i, "kernel")) for i in range(6)]
    assert per_iteration == [26 + 14, *[25 + 14] * 5]
    layers = json.loads((tmp_path / "layers.json").read_text(encoding="utf-8"))["layers"]
    assert [layer["name"] for layer in layers[6:12:3]] == ["block2__conv3.0", "block3__conv4.0"]
    deeper.connection.close()


@pytest.mark.parametrize("arguments", [["--iterations", "4"], ["--blocks", "0"], ["--blocks", "x"]])
def test_bad_arguments(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--output", str(tmp_path), *arguments])
    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_writer_streams_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "many.sqlite"
    rows = 50_001
    with NsysWriter(path, utc_start_ns=0) as writer:
        names = [writer.string(f"call {i % 7}") for i in range(rows)]
        for i, name in enumerate(names):
            writer.add(Runtime(i, i + 1, RUNTIME_CALL, None, i, name))
    connection = sqlite3.connect(path)
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    found = connection.execute(f"SELECT count(*), sum(start), max(nameId) FROM {table}").fetchone()
    strings = connection.execute("SELECT value FROM StringIds ORDER BY id").fetchall()
    absent = connection.execute("SELECT name FROM sqlite_master WHERE name = 'NVTX_EVENTS'")
    assert found == (rows, rows * (rows - 1) // 2, 6)
    assert strings == [(f"call {i}",) for i in range(7)]
    assert absent.fetchall() == []
    connection.close()


def test_writer_removes_a_file_that_it_could_not_finish(tmp_path: Path) -> None:
    path = tmp_path / "broken.sqlite"
    with pytest.raises(RuntimeError), NsysWriter(path, utc_start_ns=0) as writer:
        writer.add(Runtime(0, 1, RUNTIME_CALL, None, 1, writer.string("cudaFree")))
        raise RuntimeError
    assert not path.exists()
