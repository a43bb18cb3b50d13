"""Ask tbd-trace about the captures of a step, as a user would, and read what programs measured."""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_TIMEOUT_S = 60

Row = dict[str, Any]


class NoAnswerError(Exception):
    """A result that an expectation needs is missing; the message says why."""


class Answers:
    """Answers about files in the directory of a step."""

    def __init__(
        self,
        directory: Path,
        tbd: list[str],
        environment: Mapping[str, str],
        deadline: float = math.inf,  # of time.monotonic()
    ) -> None:
        self._directory = directory
        self._deadline = deadline
        self._tbd = tbd
        self._environment = environment
        self._kept: dict[tuple[str, ...], Any] = {}

    def ask(self, *arguments: str) -> Any:
        """Return the JSON that a command of tbd-trace prints; raise NoAnswerError if it fails."""
        if arguments not in self._kept:
            self._kept[arguments] = self._run(arguments)
        return self._kept[arguments]

    def facts(self, name: str) -> Any:
        """Return the content of a JSON file; raise NoAnswerError if there is none."""
        try:
            return json.loads((self._directory / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise NoAnswerError(f"{name} was not written") from error

    def _run(self, arguments: tuple[str, ...]) -> Any:
        seconds = min(_TIMEOUT_S, self._deadline - time.monotonic())
        words = [path for word in arguments for path in self._paths(word)]
        argv = [*self._tbd, *words, "--format", "json"]
        try:
            done = subprocess.run(
                argv,
                cwd=self._directory,
                env=dict(self._environment),
                capture_output=True,
                text=True,
                timeout=max(seconds, 0),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NoAnswerError(f"{arguments[0]} took longer than {seconds:.0f} s") from error
        if done.returncode:
            last = next(iter(done.stderr.strip().splitlines()[-1:]), "no output")
            raise NoAnswerError(f"exit code {done.returncode}: {last}")
        return json.loads(done.stdout)

    def _paths(self, word: str) -> list[str]:
        # Captures of several batch sizes are named as in a shell: estimate/*.
        is_pattern = word.endswith("/*")
        return sorted(map(str, self._directory.glob(word))) if is_pattern else [word]


def query(name: str, target: str, *settings: str) -> Callable[[Answers], list[Row]]:
    """Return a measure of all rows of a query."""
    sets = [word for setting in settings for word in ("--set", setting)]

    def rows(answers: Answers) -> list[Row]:
        answer: list[Row] = answers.ask("query", name, target, *sets, "--limit", "0")
        return answer

    return rows


def cell(name: str, column: str, target: str, *settings: str) -> Callable[[Answers], Any]:
    """Return a measure of a column in the first row of a query that has a value there."""
    rows = query(name, target, *settings)

    def value(answers: Answers) -> Any:
        values = (row[column] for row in rows(answers) if row[column] is not None)
        try:
            return next(values)
        except StopIteration:
            raise NoAnswerError(f"{name}: {column} is NULL") from None

    return value


def total(name: str, column: str, target: str, *settings: str) -> Callable[[Answers], Any]:
    """Return a measure of the sum of a column of a query."""
    rows = query(name, target, *settings)
    return lambda answers: sum(row[column] or 0 for row in rows(answers))


def fact(name: str, *path: str | int) -> Callable[[Answers], Any]:
    """Return a measure of a value in a JSON file, by keys and indices."""

    def value(answers: Answers) -> Any:
        content = answers.facts(name)
        for key in path:
            try:
                content = content[key]
            except (KeyError, IndexError, TypeError):
                raise NoAnswerError(f"{name} has no {key}") from None
        if content is None:
            raise NoAnswerError(f"{name}: {path[-1]} is null")
        return content

    return value


def share(cause: str, target: str) -> Callable[[Answers], float]:
    """Return a measure of the share of a cause by ``why``, in percent; 0 if it has none."""

    def value(answers: Answers) -> float:
        causes = answers.ask("why", target)["causes"]
        return float(sum(row["share_pct"] for row in causes if row["cause"] == cause))

    return value


def predicted_step(target: str, *changes: str) -> Callable[[Answers], tuple[float, float]]:
    """Return a measure of the shortest and longest step that ``whatif`` predicts, in ns."""
    words = [word for change in changes for word in ("--change", change)]

    def bounds(answers: Answers) -> tuple[float, float]:
        prediction = answers.ask("whatif", target, *words)
        return prediction["best_step_ns"], prediction["worst_step_ns"]

    return bounds
