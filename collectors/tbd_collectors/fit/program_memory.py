"""Run an unedited program for a few iterations, and get a log of its memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tbd_collectors.capture_writer import read_json
from tbd_collectors.collection_request import Command
from tbd_collectors.fit.memory_log import MemoryLog, read_log
from tbd_collectors.process import CollectionError, run
from tbd_collectors.profiler import MEMORY, Run
from tbd_collectors.report_awaited import NO_TRAINING, ReportAwaited
from tbd_collectors.run_outcome import CaptureEndedError, check
from tbd_collectors.trial import working_copy
from tbd_collectors.workload import importable
from tbd_models.instrument.marks import MEMORY_VARIABLE
from tbd_models.instrument.memory_request import FROM_LOADER, MemoryRequest

BATCH = "{batch}"
"""What stands for the batch size in the arguments of a command."""


@dataclass(frozen=True, slots=True)
class ProgramMemory:
    """The memory of some iterations of a program."""

    log: MemoryLog
    report: dict[str, Any]  # as of tbd_models.unedited.program_pytorch

    @property
    def batch_size(self) -> int | None:
        """Return the program's own batch size, None if it is unknown."""
        return self.report.get("batch_size")


@dataclass(frozen=True, slots=True)
class ProgramRuns:
    """Runs of a program.

    Args:
        command: the program; ``{batch}`` in its arguments stands for the batch size.
        directory: for logs.
        device: whose kernels are assumed.
        fake: fake tensors in place of real ones from the first training call on.
        timeout_s: limit of each run.
    """

    command: Command
    directory: Path
    device: str
    fake: bool
    timeout_s: float

    def on_real_tensors(self) -> ProgramRuns:
        """Return runs on real tensors of the CPU."""
        return replace(self, fake=False)

    def memory(
        self, batch_size: int | None = None, checkpointed: tuple[str, ...] = ()
    ) -> ProgramMemory:
        """Return the memory with a batch size, None for the program's own.

        Raises:
            CollectionError: the program failed or does not train.
        """
        name = f"{batch_size or 'own'}-{len(list(self.directory.iterdir()))}"
        report, log = (self.directory / f"{name}.{ending}" for ending in ("json", "jsonl"))
        # The command itself makes the batch if it has a place for its size.
        own = None if self._has_place() else batch_size
        request = MemoryRequest(report, self.fake, self.device, own, checkpointed)
        self._run(request, log, batch_size)
        found = read_json(report)
        if not found or not log.exists():
            raise CollectionError(NO_TRAINING)
        if not found["iterations"]:
            raise CollectionError("the program ended before its first optimizer step")
        return ProgramMemory(read_log(log), found)

    def can_resize(self, memory: ProgramMemory) -> bool:
        """Return True if runs with another batch size are possible, as a run showed."""
        # Real tensors get another batch from a DataLoader only.
        if self._has_place():
            return True
        source = memory.report.get("batch_source")
        return source is not None and (self.fake or source == FROM_LOADER)

    def _has_place(self) -> bool:
        return any(BATCH in argument for argument in self.command.arguments)

    def _run(self, request: MemoryRequest, log: Path, batch_size: int | None) -> None:
        output = log.with_suffix(".log")
        argv = [a.replace(BATCH, str(batch_size)) for a in self.command.arguments]
        planned = Run(MEMORY, None, argv, log)
        with importable(auto=True) as environment, working_copy(Path.cwd()) as directory:
            completed = run(
                argv,
                environment=environment | {MEMORY_VARIABLE: str(log)} | request.variables(),
                directory=directory,
                timeout_s=self.timeout_s,
                log=output,
                watcher=ReportAwaited(request.report),
            )
        try:
            check(planned, completed, {}, output)
        except CaptureEndedError as error:
            raise CollectionError(error.reason) from error
