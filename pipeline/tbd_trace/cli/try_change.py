"""``tbd-trace try``: apply a change to an unedited training script, and measure it."""

# The collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbd_collectors.choices import Device
from tbd_trace.cli.output import note
from tbd_trace.errors import CannotAnswerError, TbdTraceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tbd_collectors.collection_request import Command
    from tbd_collectors.speedup import Speedup
    from tbd_collectors.trial import Trial

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
            help="Change to try, such as workers=4. By default the one that why tries first.",
        ),
    ] = None,
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
    if len(changes or []) > 1:
        raise UsageError("--change is given twice; try one change at a time")
    asked = _checked(changes[0], on_gpu=on_gpu) if changes else None
    from tbd_collectors.collection_request import Command
    from tbd_collectors.trial import Trial

    captures = (output or Path(f"try-{_name(command)}")).absolute()
    if captures.exists():
        raise UsageError(f"{captures} exists; choose another -o, or remove it")
    target = Command(
        tuple(command), "cuda" if on_gpu else "cpu", iterations=iterations, warmup=warmup
    )
    tried = _record(_Recorded(target, captures, timeout), asked, on_gpu=on_gpu)
    same = _same_work(captures, tried)
    runs = Trial(target, tried, timeout, say=lambda text: note(f"{tried}: {text}"))
    found = _measured(runs, pairs)
    if runs.learns_alike() is False:
        raise TbdTraceError(
            f"{tried}: refused: its losses differ more from those of the program than those of "
            "other seeds do"
        )
    typer.echo(f"{tried}: {_answer(tried, found, same)}")
    note(f"next: tbd-trace diff {captures / 'before'} {captures / 'after'}")


@dataclass(frozen=True, slots=True)
class _Recorded:
    # Captures of a command, which torch.profiler records.

    target: Command
    directory: Path
    timeout_s: float

    def record(self, name: str, change: str | None) -> dict[str, Any]:
        # Return the report of the run: files written elsewhere, and whether the change acted.
        from tbd_collectors.capture_writer import read_json
        from tbd_collectors.collect import collect
        from tbd_collectors.collection_request import Profiling
        from tbd_collectors.trial import requested, working_copy
        from tbd_models.instrument.trial_request import TrialRequest
        from tbd_trace.runtime.private_files import temporary_directory

        profiling = Profiling(
            timeline="torch", counters=False, throughput=False, timeout_s=self.timeout_s
        )
        with temporary_directory() as outside, working_copy(Path.cwd()) as copy:
            request = TrialRequest(change, 0, Path(outside) / "trial.json", copy, is_timed=False)
            with requested(request):
                result = collect(
                    self.target, profiling, self.directory / name, say=_say(name, change)
                )
            report = read_json(request.report)
        if result.status != "ok":
            raise TbdTraceError(f"{change or name}: {result.reason}")
        own = self.directory.resolve()
        others = [path for path in report.get("written", []) if not Path(path).is_relative_to(own)]
        return report | {"written": others}


def _record(recorded: _Recorded, asked: str | None, *, on_gpu: bool) -> str:
    # Record the program without and with the change, and return the change.
    with _removed_on_error(recorded.directory):
        before = recorded.record("before", None)
        if before.get("written"):
            note(f"each run also writes {', '.join(before['written'])}")
        tried = asked or _first_change(recorded.directory / "before", on_gpu=on_gpu)
        if not recorded.record("after", tried).get("acted", True):
            raise CannotAnswerError(f"{tried} changes nothing in this program")
    return tried


def _name(command: list[str]) -> str:
    # The name of the script, or of the module after -m.
    if "-m" in command[:-1]:
        return command[command.index("-m") + 1]
    return Path(next((word for word in command if word.endswith(".py")), command[0])).stem


@contextmanager
def _removed_on_error(captures: Path) -> Iterator[None]:
    # The next trial of the same script makes them again.
    try:
        yield
    except TbdTraceError:
        shutil.rmtree(captures, ignore_errors=True)
        raise


def _measured(runs: Trial, pairs: int) -> Speedup:
    # After Ctrl-C, state the estimate so far.
    from tbd_collectors.speedup import speedup

    try:
        return runs.run_pairs(pairs)
    except KeyboardInterrupt:
        if len(done := runs.pairs()) > 1:
            found = speedup(done)
            note(f"interrupted after {found.pairs} pairs: {found}")
        raise


def _say(name: str, change: str | None) -> Callable[[str], None]:
    what = change or "the program as it is"
    return lambda text: note(f"{name} ({what}): {text}")


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


def _same_work(captures: Path, change: str) -> str:
    from tbd_trace.analysis.diff import SameWork, compare
    from tbd_trace.analysis.diff.work import differences
    from tbd_trace.api import open_traces

    work = compare(open_traces(captures / "before"), open_traces(captures / "after")).work
    if work.verdict is SameWork.SAME:
        return "at the same work"
    if work.verdict is SameWork.UNKNOWN:
        return f"(work unknown: {work.reason})"
    raise TbdTraceError(f"{change}: refused: not the same work: {differences(work.differs)}")


def _answer(tried: str, found: Speedup, same: str) -> str:
    from tbd_collectors.speedup import Outcome
    from tbd_models.trial.changes import keep

    if found.outcome is Outcome.FASTER:
        return f"{found} {same}; keep it with: {keep(tried)}"
    if found.outcome is Outcome.SLOWER:
        return f"{found} {same}: slower, leave it out"
    return f"{found.outcome}: {found} {same}"
