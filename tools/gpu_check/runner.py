"""Run the steps within a time limit, and keep the results of each as soon as it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_check import table
from gpu_check.answers import Answers, NoAnswerError
from gpu_check.machine import Machine
from gpu_check.step import GPU, NCU, NSYS, Expectation, Step
from gpu_check.table import FAILED, IMPOSSIBLE, PASSED, Verdict
from tbd_collectors import process
from tbd_collectors.program_stop import Stopping
from tbd_trace.errors import TbdTraceError

CAPTURES_MIB = 60
MARK = "TBD_TRACE_GPU_CHECK"
"""Environment variable of all processes of a check: its directory."""

_COMMANDS, _RESULT = "commands.json", "result.json"
_GRACE_S = 5.0
_CPU_PATIENCE = 4  # a rehearsal may share its cores
# A row, column or number is missing, or is NULL.
_UNANSWERED = (NoAnswerError, LookupError, StopIteration, TypeError, ValueError, ZeroDivisionError)
_MIB = 2**20
# Messages of machines that cannot do a step, which is no fault of tbd-trace.
_REASONS = {
    re.compile("ERR_NVGPUCTRPERM"): "the driver denies this user access to counters",
    re.compile("(?i)driver.{0,40} is (insufficient|too old)"): "the driver is too old",
    re.compile("(?i)(unsupported|incompatible) (cuda )?driver"): "a profiler rejects the driver",
    re.compile("is a precision of GPUs"): "its precision needs a GPU",
    re.compile("LibraryNotLoaded|CUPTI_ERROR_NOT_INITIALIZED"): "a profiler rejects the driver",
}


@dataclass(slots=True)
class Check:
    """A check of a machine; a second run with the same ``directory`` continues the first."""

    machine: Machine
    directory: Path
    environment: Mapping[str, str]
    deadline: float  # of time.monotonic()
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self, steps: Sequence[Step], again: Iterable[str] = ()) -> list[Verdict]:
        """Run the steps that have no result, or are named in ``again``; return all verdicts."""
        end_left_overs(self.directory)
        for name in again:
            shutil.rmtree(self._folder(name), ignore_errors=True)
        for step in steps:
            self._read_result(step)
        for step in steps:
            if step.name not in self.results:
                if not self._run_step(step):
                    break
                table.write(self.directory, self._verdicts(steps))
        verdicts = self._verdicts(steps)
        table.write(self.directory, verdicts)
        return verdicts

    def compare_recorded(self, steps: Sequence[Step]) -> list[Verdict]:
        """Compare what finished commands left with the expectations again; run no command."""
        for step in steps:
            if (self._folder(step.name) / _COMMANDS).is_file():
                self._compare_step(step, time.monotonic())
        verdicts = self._verdicts(steps)
        table.write(self.directory, verdicts)
        return verdicts

    def _folder(self, name: str) -> Path:
        return self.directory / "steps" / name

    def _read_result(self, step: Step) -> None:
        path = self._folder(step.name) / _RESULT
        if path.is_file():
            self.results[step.name] = json.loads(path.read_text(encoding="utf-8"))

    def _run_step(self, step: Step) -> bool:
        # Returns False if the time of the whole check ended: the step has no result then, and the
        # next run begins with the commands, or with their results if all were run.
        folder = self._folder(step.name)
        if self._is_over():
            return False
        print(f"{step.name} …", flush=True)
        started = time.monotonic()
        if not (folder / _COMMANDS).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            verdicts = self._prepared(step, folder, started)
            if self._is_over():
                return False
            rows = [verdict.as_dict() for verdict in verdicts]
            table.replace(folder / _COMMANDS, json.dumps(rows, indent=1))
        return self._compare_step(step, started)

    def _is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    def _prepared(self, step: Step, folder: Path, started: float) -> list[Verdict]:
        if lacking := self._lacking(step):
            return [Verdict(step.name, "can run", lacking, "missing", IMPOSSIBLE)]
        return list(self._commands(step, folder, started))

    def _compare_step(self, step: Step, started: float) -> bool:
        folder = self._folder(step.name)
        rows = json.loads((folder / _COMMANDS).read_text(encoding="utf-8"))
        verdicts = [Verdict(**row) for row in rows]
        # Of what an impossible step leaves, nothing can be expected.
        if not any(verdict.verdict == IMPOSSIBLE for verdict in verdicts):
            verdicts += self._expectation_verdicts(step, folder)
        verdicts += self._archive(step, folder)
        if self._is_over():
            return False
        seconds = round(time.monotonic() - started, 1)
        result = {"seconds": seconds, "verdicts": [verdict.as_dict() for verdict in verdicts]}
        table.replace(folder / _RESULT, json.dumps(result, indent=1))
        self.results[step.name] = result
        for verdict in verdicts:
            print(f"  {verdict.line()}", flush=True)
        return True

    def _lacking(self, step: Step) -> str | None:
        if GPU in step.needs and self.machine.device != "cuda":
            return "a GPU"
        if NSYS in step.needs and not self.machine.nsys:
            return "nsys; install Nsight Systems or make the kit with it"
        if NCU in step.needs and shutil.which("ncu", path=self.environment["PATH"]) is None:
            return "ncu; install Nsight Compute"
        return None

    def _commands(self, step: Step, folder: Path, started: float) -> Iterator[Verdict]:
        fields = self.machine.fields | {"nsys": ",".join(map(str, self.machine.nsys))}
        for number, text in enumerate(step.commands):
            now = time.monotonic()
            remaining = min(started + self._limit_s(step), self.deadline) - now
            argv = shlex.split(text.format_map(fields))
            what = f"`{_shortened(argv)}`"
            if remaining <= 0:
                yield Verdict(
                    step.name, what, "runs", f"limit of {self._limit_s(step):g} s", FAILED
                )
                return
            log = folder / f"{number}.log"
            failure = self._execute(argv, folder, remaining, log)
            if failure is not None:
                reason = _reason(log)
                outcome = IMPOSSIBLE if reason else FAILED
                yield Verdict(step.name, what, "exit code 0", failure, outcome, reason or "")

    def _limit_s(self, step: Step) -> float:
        return step.limit_s * (1 if self.machine.device == "cuda" else _CPU_PATIENCE)

    def _execute(self, argv: list[str], folder: Path, seconds: float, log: Path) -> str | None:
        marked = {**self.environment, MARK: str(self.directory.resolve())}
        try:
            done = process.run(
                argv,
                environment=marked,
                directory=folder,
                timeout_s=seconds,
                log=log,
                stopping=Stopping(_GRACE_S),
            )
            done.require_success("it")
        except TbdTraceError as error:
            return str(error)
        return None

    def _expectation_verdicts(self, step: Step, folder: Path) -> Iterator[Verdict]:
        tbd = shlex.split(self.machine.fields["tbd"])
        answers = Answers(folder, tbd, {**os.environ, **self.environment}, self.deadline)
        for expectation in step.expectations:
            if expectation.needs_gpu and self.machine.device != "cuda":
                continue
            yield _verdict(step, expectation, answers)

    def _archive(self, step: Step, folder: Path) -> Iterator[Verdict]:
        for name in step.captures:
            files = [str(path) for path in sorted(folder.glob(name))]
            if not files:
                continue  # a verdict on its command says why
            to = self.directory / "captures" / f"{step.name}-{name.partition('/')[0]}.tbd.zip"
            to.parent.mkdir(exist_ok=True)
            argv = [*shlex.split(self.machine.fields["tbd"]), "archive", "create", *files]
            problem = self._execute(
                [*argv, "--force", "-o", str(to.resolve())], folder, 60, folder / "archive.log"
            )
            if problem is None and _size(to.parent) > CAPTURES_MIB * _MIB:
                to.unlink()
                problem = f"captures exceed {CAPTURES_MIB} MiB; it stays in {folder} alone"
            if problem is not None:
                yield Verdict(step.name, f"redacted archive of {name}", "made", problem, FAILED)

    def _verdicts(self, steps: Sequence[Step]) -> list[Verdict]:
        verdicts = []
        for step in steps:
            result = self.results.get(step.name)
            if result is None:
                verdicts.append(Verdict(step.name, "runs", "in time", "no time left", table.OPEN))
            else:
                verdicts += [Verdict(**verdict) for verdict in result["verdicts"]]
        return verdicts


def _verdict(step: Step, expectation: Expectation, answers: Answers) -> Verdict:
    expected = expectation.expected
    try:
        true = expected(answers) if callable(expected) else expected
    except _UNANSWERED as error:
        return Verdict(step.name, expectation.what, f"unknown: {_words(error)}", "", FAILED)
    try:
        measured = expectation.measured(answers)
        outcome = PASSED if expectation.passes(measured, true) else FAILED
    except _UNANSWERED as error:
        return Verdict(
            step.name, expectation.what, table.text(true), f"not measured: {_words(error)}", FAILED
        )
    return Verdict(step.name, expectation.what, table.text(true), table.text(measured), outcome)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, NoAnswerError) else f"no value ({error!r})"


def _reason(log: Path) -> str | None:
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    return next((words for pattern, words in _REASONS.items() if pattern.search(text)), None)


def _shortened(argv: Sequence[str]) -> str:
    words = [Path(word).name if Path(word).is_absolute() else word for word in argv]
    return " ".join(words).replace("python -m tbd_trace", "tbd-trace")


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def end_left_overs(directory: Path) -> None:
    """Kill the processes of an earlier run of this check that was killed itself."""
    wanted = f"{MARK}={directory.resolve()}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:  # the process has ended, or belongs to another user
            continue
