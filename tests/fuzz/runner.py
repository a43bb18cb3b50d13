"""Run inputs in a process that is replaced where it crashes or takes too long."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from fuzz.target import DEFECT, Outcome, Target

_LIMIT_S = 60  # wall time, of a busy machine


def fuzz(
    inputs: list[tuple[str, int]], seed: int, seconds: float | None, failures: Path
) -> Iterator[Outcome]:
    """Run inputs in a child process, which is replaced where it crashes or takes too long."""
    end = time.monotonic() + seconds if seconds else float("inf")
    worker: _Worker | None = None
    try:
        for kind, number in inputs:
            if time.monotonic() > end:
                return
            worker = worker or _Worker(seed)
            outcome, is_alive = worker.run(kind, number)
            if outcome.verdict == DEFECT:
                _keep(Path(outcome.path), failures / f"{kind}-{seed}-{number}")
            yield outcome
            if not is_alive:
                worker.close()
                worker = None
    finally:
        if worker:
            worker.close()


class _Worker:
    # A process that runs inputs one by one.

    def __init__(self, seed: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._folder, seed))
        self._process.start()
        theirs.close()
        self._pipe.recv()  # imports are done

    def run(self, kind: str, number: int) -> tuple[Outcome, bool]:
        self._pipe.send((kind, number))
        path = str(self._folder / "input")
        if not self._pipe.poll(_LIMIT_S):
            return Outcome(kind, number, DEFECT, f"longer than {_LIMIT_S} s", path), False
        try:
            outcome: Outcome = self._pipe.recv()
        except EOFError:
            self._process.join()
            message = f"the process ended with {self._process.exitcode}"
            return Outcome(kind, number, DEFECT, message, path), False
        return outcome, True

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _serve(pipe: Connection, folder: Path, seed: int) -> None:
    target = Target(folder, seed)
    pipe.send(None)
    while True:
        pipe.send(target.run(*pipe.recv()))


def _keep(path: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    if path.is_dir():
        shutil.copytree(path, target / path.name)
    else:
        shutil.copy(path, target)
