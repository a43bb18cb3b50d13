"""Options of ``tbd-trace collect`` that would have no effect are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tbd_trace.cli.main import app


def collect(directory: Path, *words: str) -> Result:
    options = ("--device", "cpu", "--dry-run", "-o", str(directory / "c"))
    return CliRunner().invoke(app, ["collect", *options, *words])


def refused(directory: Path, *words: str) -> str:
    done = collect(directory, *words)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    return done.stderr


COMMAND = ("--", "sleep", "1")


@pytest.mark.parametrize(
    "option",
    [
        *("--framework pytorch", "--variant v1", "--scale full", "--batch-size 4"),
        *("--precision fp32", "--execution auto", "--gradient-accumulation 1", "--seed 0"),
        *("--activation-checkpointing", "--data .", "--lengths fixed", "--input synthetic"),
        *("--loader-workers 0", "--python python3", "--throughput"),
    ],
)
def test_options_of_models(option: str, tmp_path: Path) -> None:
    said = refused(tmp_path, *option.split(), *COMMAND)
    assert said.startswith(f"error: {option.partition(' ')[0]} is for models; ")


def test_the_batch_size_of_a_command_is_recorded_by_the_program(tmp_path: Path) -> None:
    said = refused(tmp_path, "--batch-size", "4", *COMMAND)
    assert said.endswith("tbd_trace.instrument(batch_size=N) records it\n")


def test_options_that_are_kept_for_commands(tmp_path: Path) -> None:
    options = "--iterations 3 --warmup 2 --no-auto --no-throughput --no-counters --memory-usage"
    done = collect(tmp_path, *options.split(), "--profiler", "torch", *COMMAND)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--warmup 2", "--warmup is for timelines; --memory records the first 3 iterations"),
        ("--iterations 12", "--iterations is for timelines; --memory records"),
        ("--capture-range X@*", "--capture-range is for timelines; --memory records"),
        ("--estimate --keep-running", "--keep-running and --estimate exclude each other"),
        ("--estimate --no-auto", "--no-auto and --estimate exclude each other"),
        ("--estimate --largest-batch 8", "--largest-batch is for models; of a command, use"),
    ],
)
def test_options_without_effect_on_the_memory_of_a_command(
    options: str, why: str, tmp_path: Path
) -> None:
    assert why in refused(tmp_path, "--memory", *options.split(), *COMMAND)


def test_an_estimate_of_a_command_needs_memory(tmp_path: Path) -> None:
    assert "--estimate needs --memory" in refused(tmp_path, "--estimate", *COMMAND)
    done = collect(tmp_path, "--memory", "--estimate", *COMMAND)
    assert done.exit_code == 0, done.stderr
    assert '"fake": true' in done.stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--profiler torch --gpu-metrics", "--gpu-metrics is for nsys; torch does not"),
        ("--profiler nsys --gpu-metrics", "--gpu-metrics needs a GPU"),
        ("--profiler torch --counters", "--counters needs an NVIDIA GPU"),
        ("--profiler nvprof --memory-usage", "--memory-usage is for nsys and torch"),
        ("--device cuda --profiler torch --counters --ranks 2", "leave out --ranks"),
        ("--device cuda --profiler torch --counters --keep-running", "leave out --keep-running"),
        ("--memory --profiler torch", "--profiler is for timelines; leave out --memory"),
        ("--memory --gpu-metrics", "--gpu-metrics is for timelines; leave out --memory"),
    ],
)
def test_records_that_cannot_be_made(options: str, why: str, tmp_path: Path) -> None:
    assert why in refused(tmp_path, *options.split(), *COMMAND)


def test_options_of_commands(tmp_path: Path) -> None:
    words = ("--no-auto", "--python", "python3", "resnet50")
    assert "--no-auto is for commands" in refused(tmp_path, *words)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("foo", "is neither cudaProfilerApi nor RANGE@DOMAIN; write 'foo@*'"),
        ("foo@", "is neither cudaProfilerApi nor RANGE@DOMAIN; write 'foo@*'"),
        ("cudaProfilerApi", "needs a GPU; select an NVTX range by RANGE@DOMAIN"),
        ("a@b --device cuda --profiler nvprof", "use cudaProfilerApi, or --profiler nsys"),
        ("a@b --iterations 12", "--iterations and --capture-range exclude each other"),
        ("a@b --warmup 5", "--warmup and --capture-range exclude each other"),
        ("a@b --keep-running", "--keep-running and --capture-range exclude each other"),
    ],
)
def test_ranges_that_would_not_be_recorded(options: str, why: str, tmp_path: Path) -> None:
    words = ("--profiler", "nsys", "--capture-range", *options.split())
    assert why in refused(tmp_path, *words, *COMMAND)


def test_ranges_that_can_be_recorded(tmp_path: Path) -> None:
    for words in (("a b@mine",), ("cudaProfilerApi", "--device", "cuda")):
        more = ("--compute-capability", "7.0", "--profiler", "nsys")
        done = collect(tmp_path, *more, "--capture-range", *words, *COMMAND)
        assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("-o", "job"), "-o"),
        (("--force",), "--force"),
        (COMMAND, "a model or command"),
        (("resnet50",), "a model or command"),
    ],
)
def test_a_job_is_finished_alone(words: tuple[str, ...], what: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["collect", "--finish", str(tmp_path), *words])
    assert done.exit_code == 2
    assert done.stderr.endswith(f"leave out {what}\n")
