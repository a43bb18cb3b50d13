"""``tbd-trace collect --dry-run``: what is printed is what the profilers take, on any machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nsys_agent import until_served
from tbd_collectors.process import CollectionError, Completed, run
from tbd_trace.cli import main as cli

# The profiler of the counters, by the GPU's compute capability.
COUNTED_BY = {"6.1": "nvprof", "7.0": "ncu", "8.0": "ncu", "9.0": "ncu"}
SHORT = ["sleep", "0.5"]
RUNS = ["throughput", "timeline", "counters"]


def shown(
    capture: Path, capability: str, *options: str, **variables: str
) -> tuple[dict[str, list[str]], str]:
    """Return the argument vector of each run, by its name, and what standard error has.

    The profiler is nsys, whether it is installed or not, unless the options name another.
    """
    words = ("collect", "resnet50", "--device", "cuda", "--dry-run", "-o", str(capture))
    usual = ("--profiler", "nsys", "--compute-capability", capability)
    done = CliRunner().invoke(cli.app, [*words, *usual, *options], env=variables)
    assert done.exit_code == 0, done.stderr
    assert not capture.exists()
    titles, lines = done.stdout.splitlines()[::2], done.stdout.splitlines()[1::2]
    names = [title.removeprefix("# ") for title in titles]
    return dict(zip(names, map(shlex.split, lines), strict=True)), done.stderr


def profiler_part(argv: Sequence[str]) -> list[str]:
    """Return an argument vector up to the program that is profiled."""
    return list(argv[: argv.index("-m") - 1])


def profiler(argv: Sequence[str]) -> str:
    """Return the name of the program, behind the variables that ``env`` sets."""
    (first, *_) = (word for word in argv if word != "env" and "=" not in word)
    return Path(first).name


@pytest.fixture
def perform(tmp_path: Path) -> Callable[[Sequence[str]], Completed]:
    def performed(argv: Sequence[str]) -> Completed:
        def once(_: int) -> Completed:
            return run(
                argv, environment={}, directory=tmp_path, timeout_s=120, log=tmp_path / "log.txt"
            )

        return until_served(once, lambda done: "\n".join(done.tail))

    return performed


Perform = Callable[[Sequence[str]], Completed]


def test_a_model_without_pytorch_needs_no_framework_named(tmp_path: Path) -> None:
    words = ["collect", "minigo", "--device", "cpu", "--dry-run", "--python", "python3"]
    done = CliRunner().invoke(cli.app, [*words, "-o", str(tmp_path / "c")])
    assert done.exit_code == 0, done.stderr
    assert "run minigo --framework tensorflow" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("capability", "counted_by"), COUNTED_BY.items())
def test_every_run_is_shown(capability: str, counted_by: str, tmp_path: Path) -> None:
    lines, _ = shown(tmp_path / "c", capability)
    assert list(lines) == RUNS
    assert [profiler(lines[name]) for name in RUNS[1:]] == ["nsys", counted_by]
    for argv in lines.values():
        assert argv[argv.index("-m") : argv.index("-m") + 4] == [
            *("-m", "tbd_models", "run", "resnet50"),
        ]


@pytest.mark.parametrize(("capability", "counted_by"), COUNTED_BY.items())
def test_profilers_that_are_missing_are_named(
    capability: str, counted_by: str, tmp_path: Path
) -> None:
    """The lines are those of a machine that has them, with plain names."""
    (tmp_path / "bin").mkdir()
    lines, said = shown(tmp_path / "c", capability, PATH=str(tmp_path / "bin"))
    assert lines["timeline"][:3] == ["env", "NSYS_NVTX_PROFILER_REGISTER_ONLY=0", "nsys"]
    assert lines["counters"][0] == counted_by
    notes = said.splitlines()
    assert len(notes) == 2
    for name, text in zip(("nsys", counted_by), notes, strict=True):
        assert text.startswith(f"note: {name} is not on PATH: ")
    lines, said = shown(
        *(tmp_path / "c", capability, "--batch-size", "2,4", "--no-counters"),
        PATH=str(tmp_path / "bin"),
    )
    assert said.count("nsys is not on PATH") == 1


def test_a_gpu_that_nvprof_does_not_know(tmp_path: Path) -> None:
    """Nobody is asked to install what would not help."""
    words = ["collect", "resnet50", "--device", "cuda", "--dry-run", "-o", str(tmp_path / "c")]
    done = CliRunner().invoke(
        cli.app,
        [*words, "--compute-capability", "8.0", "--profiler", "nvprof"],
        env={"PATH": str(tmp_path)},
    )
    assert done.exit_code == 2
    assert "only those before 8.0: use nsys" in done.stderr


@pytest.mark.slow
@pytest.mark.needs("nsys")
def test_nsys_takes_what_is_shown(perform: Perform, tmp_path: Path) -> None:
    made = {
        tuple(profiler_part(shown(tmp_path / "c", capability)[0]["timeline"]))
        for capability in COUNTED_BY
    }
    (argv,) = made
    (tmp_path / "c").mkdir()
    perform([*argv, *SHORT]).require_success("nsys")
    # The control: its parser is strict.
    with pytest.raises(CollectionError, match="--nonsense"):
        perform([*argv, "--nonsense=1", *SHORT]).require_success("nsys")


@pytest.mark.needs("nvprof")
@pytest.mark.parametrize("run_name", ["timeline", "counters"])
def test_nvprof_takes_what_is_shown(run_name: str, perform: Perform, tmp_path: Path) -> None:
    """Without a GPU it stops at the first metric, which it looks up in the driver."""
    lines, _ = shown(tmp_path / "c", "6.1", "--profiler", "nvprof")
    argv = profiler_part(lines[run_name])
    if "--metrics" in argv:
        first = argv.index("--metrics")
        argv = [*argv[:first], *argv[first + 2 :]]
    (tmp_path / "c").mkdir()
    perform([*argv, *SHORT]).require_success("nvprof")
    with pytest.raises(CollectionError, match="nonsense"):
        perform([*argv, "--nonsense", *SHORT]).require_success("nvprof")


@pytest.mark.slow
@pytest.mark.needs("ncu")
@pytest.mark.parametrize("capability", [key for key, tool in COUNTED_BY.items() if tool == "ncu"])
def test_ncu_takes_what_is_shown(capability: str, perform: Perform, tmp_path: Path) -> None:
    lines, _ = shown(tmp_path / "c", capability)
    argv = profiler_part(lines["counters"])
    (tmp_path / "c").mkdir()
    perform([*argv, *SHORT]).require_success("ncu")
    with pytest.raises(CollectionError, match="--nonsense"):
        perform([*argv, "--nonsense", *SHORT]).require_success("ncu")
