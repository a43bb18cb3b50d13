"""``tbd-trace fit``: does an unedited training script fit a GPU, and what would make it fit?"""

# The collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_collectors.choices import Device
from tbd_trace.cli.output import busy, emit_text, note
from tbd_trace.errors import UsageError

if TYPE_CHECKING:
    from tbd_collectors.collection_request import Command
    from tbd_collectors.fit.fitting import Fit


class FitFormat(StrEnum):
    """Form of the answer."""

    TABLE = "table"
    JSON = "json"


class Shard(StrEnum):
    """States of training that GPUs divide."""

    FSDP = "fsdp"
    ZERO2 = "zero2"


def fit(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LIMIT] -- COMMAND",
            help="Memory of the GPU, such as 24GB or RTX 4090, and a training command of a PyTorch "
            "program. Without LIMIT, the need alone.",
            show_default=False,
        ),
    ] = None,
    *,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size",
            metavar="N",
            min=1,
            help="Batch in place of the program's: a DataLoader repeats samples, {batch} in the "
            "command stands for N.",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus",
            metavar="N",
            min=2,
            help="With --shard: GPUs that divide the states.",
            show_default=False,
        ),
    ] = None,
    shard: Annotated[
        Shard | None,
        typer.Option(
            "--shard",
            help="With --gpus: fsdp divides weights, gradients and optimizer state; zero2 leaves "
            "the weights whole. The batch is that of one GPU.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        Device,
        typer.Option("--device", help="Kernels to assume. auto is cuda, also without a GPU."),
    ] = Device.AUTO,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=1, help="Time limit of each run.")
    ] = 3600.0,
    form: Annotated[
        FitFormat,
        typer.Option("--format", metavar="FORM", help="table or json.", case_sensitive=False),
    ] = FitFormat.TABLE,
) -> None:
    """Check whether an unedited training script fits a GPU, without one.

    Runs the script for three iterations on tensors that have shapes but no data, from its first
    training call on. Prints the peak by class and layer, the largest batch that fits, and where the
    batch does not fit, the layers to checkpoint at the least cost. Each run has its own working
    directory with links to the files of this one. Exit code 12: it does not fit.
    """
    limit, arguments = _divided(words or [])
    if (gpus is None) != (shard is None):
        raise UsageError("--gpus N and --shard SCHEME need each other")
    from tbd_collectors.collection_request import Command
    from tbd_collectors.fit.program_memory import BATCH
    from tbd_collectors.largest_batch import memory_bytes
    from tbd_models.definition import OUT_OF_MEMORY

    if any(BATCH in word for word in arguments) and batch_size is None:
        raise UsageError(f"{BATCH} in the command needs --batch-size N, the batch of the first run")
    capacity = None if limit is None else memory_bytes(limit, option="LIMIT")
    sharding = None if shard is None or gpus is None else (shard.value, gpus)
    command = Command(tuple(arguments), "cpu" if device is Device.CPU else "cuda")
    answer = _answer(command, capacity, sharding, batch_size, timeout)
    _show(answer, limit, sharding, form)
    if answer.fits is False:
        raise typer.Exit(OUT_OF_MEMORY)


def _divided(words: list[str]) -> tuple[str | None, list[str]]:
    # A limit begins with a number or names a GPU; a command is a program.
    import shutil

    if not words:
        raise UsageError("name the training command, as in: tbd-trace fit 24GB -- python train.py")
    if shutil.which(words[0]) is not None:
        return None, words
    if len(words) == 1:
        raise UsageError(f"{words[0]}: no training command; write it after --")
    return words[0], words[1:]


def _answer(
    command: Command,
    capacity: int | None,
    sharding: tuple[str, int] | None,
    batch_size: int | None,
    timeout_s: float,
) -> Fit:
    from tbd_collectors.collect import require_program
    from tbd_collectors.fit.fitting import Fitting
    from tbd_collectors.fit.program_memory import ProgramRuns
    from tbd_trace.runtime.private_files import temporary_directory

    require_program(command.arguments[0])
    with temporary_directory() as logs, busy("running the program") as show:
        runs = ProgramRuns(command, Path(logs), command.device, fake=True, timeout_s=timeout_s)
        return Fitting(runs, capacity, sharding, say=show).answer(batch_size)


def _show(
    answer: Fit, limit: str | None, sharding: tuple[str, int] | None, form: FitFormat
) -> None:
    from tbd_trace.cli.fit_answer import document, lines

    if form is FitFormat.JSON:
        emit_text(json.dumps(document(answer, sharding), indent=2) + "\n")
        return
    emit_text("\n".join(lines(answer, limit, sharding)) + "\n")
    for text in answer.notes:
        note(text)
