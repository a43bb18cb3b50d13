"""``tbd-trace try``: apply a change to an unedited training script, and measure it."""

# The collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_collectors.choices import Device
from tbd_trace.cli.output import note
from tbd_trace.cli.trials import Trials
from tbd_trace.errors import CannotAnswerError, UsageError

if TYPE_CHECKING:
    from tbd_collectors.trial_capture import TrialCaptures

_PAIRS = 12
_WARMUP = 12  # more than the batches that loader workers prefetch


def try_change(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND", help="Training command of a PyTorch program."),
    ] = None,
    *,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            metavar="NAME[=ARGUMENT]",
            help="Change to try, such as workers=4. By default the one that why tries first. "
            "Several are tried one after the other.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Try all changes, one by one.")] = False,
    list_changes: Annotated[
        bool, typer.Option("--list", help="List the changes that can be tried, and end.")
    ] = False,
    iterations: Annotated[
        int, typer.Option("--iterations", min=3, metavar="N", help="Iterations of each run.")
    ] = 20,
    warmup: Annotated[
        int, typer.Option("--warmup", min=1, metavar="N", help="Iterations before them.")
    ] = _WARMUP,
    pairs: Annotated[
        int,
        typer.Option(
            "--pairs",
            min=4,
            max=20,
            metavar="N",
            help="Pairs of runs at most; fewer if the 95 % interval is narrower than 10 %.",
        ),
    ] = _PAIRS,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Time limit of each run.")
    ] = 3600.0,
    device: Annotated[
        Device, typer.Option("--device", help="Device of the program.")
    ] = Device.AUTO,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Directory for the captures before and after. By default try-SCRIPT.",
        ),
    ] = None,
) -> None:
    """Apply a change to an unedited training script, and measure whether it is faster.

    Records the script without and with the change, compares the work of a step, then runs both in
    turn without a profiler. Each run has its own working directory with links to the files of this
    one, and ends after --iterations.
    """
    if list_changes:
        _list_changes()
        return
    if not command:
        raise UsageError("name the training command, as in: tbd-trace try -- python train.py")
    on_gpu = _on_gpu(device)
    asked = _asked(changes or [], every=every, on_gpu=on_gpu)
    from tbd_collectors.collection_request import Command
    from tbd_collectors.trial_capture import TrialCaptures

    directory = (output or Path(f"try-{_name(command)}")).absolute()
    if directory.exists():
        raise UsageError(f"{directory} exists; choose another -o, or remove it")
    target = Command(
        tuple(command), "cuda" if on_gpu else "cpu", iterations=iterations, warmup=warmup
    )
    with _removed_if_nothing_measured(directory):
        _run(TrialCaptures(target, directory, timeout, note), asked, pairs)


def _run(captures: TrialCaptures, asked: list[str], pairs: int) -> None:
    from tbd_collectors.forked_runs import forked_runs

    target, before = captures.target, captures.directory / "before"
    recorded = captures.record(before.name, None)
    if recorded.written:
        note(f"each run also writes {', '.join(recorded.written)}")
    tried = asked or [_first_change(before, on_gpu=target.device == "cuda")]
    with forked_runs(target.arguments, recorded.modules) as argv:
        trials = Trials(captures, argv or target.arguments, pairs)
        answers = trials.try_each(tried) if len(tried) > 1 else [trials.try_one(tried[0])]
    for answer in answers:
        typer.echo(answer.text)
    if not answers or not answers[0].after:
        raise typer.Exit(1)
    note(f"next: tbd-trace diff {before} {captures.directory / answers[0].after}")


def _asked(changes: list[str], *, every: bool, on_gpu: bool) -> list[str]:
    from tbd_models.trial.changes import possible

    if every and changes:
        raise UsageError("--all tries all changes; leave out --change")
    if every:
        return possible(on_gpu=on_gpu)
    return list(dict.fromkeys(_checked(change, on_gpu=on_gpu) for change in changes))


def _name(command: list[str]) -> str:
    # The name of the script, or of the module after -m.
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    return Path(next((word for word in command if word.endswith(".py")), command[0])).stem


@contextmanager
def _removed_if_nothing_measured(captures: Path) -> Iterator[None]:
    # The next trial of the same script makes them again. Those of a refused change are of use.
    from tbd_collectors.process import CollectionError

    try:
        yield
    except (CollectionError, CannotAnswerError):
        shutil.rmtree(captures, ignore_errors=True)
        raise


def _list_changes() -> None:
    from tbd_models.trial.changes import CHANGES

    for name, found in CHANGES.items():
        argument = f"={found.argument}" if found.argument else ""
        gpu = " (needs a GPU)" if found.needs_gpu else ""
        typer.echo(f"{name + argument:18} {found.meaning}{gpu}")


def _on_gpu(device: Device) -> bool:
    from tbd_collectors import gpu_detection

    return device is Device.CUDA or (device is Device.AUTO and bool(gpu_detection.gpus()))


def _checked(change: str, *, on_gpu: bool) -> str:
    from tbd_models.trial.changes import checked

    try:
        return checked(change, on_gpu=on_gpu)
    except ValueError as error:
        raise UsageError(f"--change {change}: {error}") from error


def _first_change(capture: Path, *, on_gpu: bool) -> str:
    from tbd_models.trial.changes import CHANGES, of_whatif
    from tbd_trace.api import open_traces

    first = open_traces(capture).why().slowest.try_first
    if first is None:
        raise CannotAnswerError(
            f"why knows no change that pays; --change tries one of {', '.join(CHANGES)}"
        )
    change = of_whatif(first.change)
    if change is None:
        raise CannotAnswerError(
            f"why tries {first.change} first, which needs an edit of the program: {first.advice}; "
            f"--change tries one of {', '.join(CHANGES)}"
        )
    return _checked(change, on_gpu=on_gpu)
