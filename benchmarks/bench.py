"""Compare tbd-trace with reference and rival tools on synthetic traces.

Usage: python -m benchmarks.bench [--sizes S M L] [--rounds 3] [--only ingest ...]

The commands of a group alternate, so that a slowdown of the machine affects all of them; the ratio
within a round counts. Prints Markdown, and writes it and JSON beside the traces.
"""

from __future__ import annotations

import argparse
import compileall
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import tbd_trace
from benchmarks.generate import generate
from benchmarks.measure import Cost, measure
from benchmarks.report import Result, as_json, as_markdown
from benchmarks.sizes import SIZES
from benchmarks.subjects import Subject, Subjects

_DATA = Path(__file__).resolve().parent / ".data"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["S"], choices=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="time limit of a run, s")
    parser.add_argument("--only", nargs="+", default=[""], help="prefixes of group names")
    parser.add_argument("--data", type=Path, default=_DATA, help="directory of all files")
    options = parser.parse_args()
    # pip has compiled the installed rivals to bytecode, but not an editable tbd-trace.
    compileall.compile_dir(Path(tbd_trace.__file__).parent, quiet=1)
    results: list[Result] = []
    for size in options.sizes:
        results.append(_result(size, options.data))
        _run(results[-1], options)
    text = as_markdown(results)
    (options.data / "results.md").write_text(text, encoding="utf-8")
    content = json.dumps(as_json(results), indent=2)
    (options.data / "results.json").write_text(content + "\n", encoding="utf-8")
    print(text)


def _file(size: str, data: Path) -> Path:
    return data / f"{size}.sqlite"


def _result(size: str, data: Path) -> Result:
    # Generates the trace on first use.
    file = _file(size, data)
    data.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        _say(f"making {file}")
        generate(file, SIZES[size])
    return Result(size, file.stat().st_size, SIZES[size].kernels)


def _run(result: Result, options: argparse.Namespace) -> None:
    scratch = options.data / f"scratch-{result.size}"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    file = _file(result.size, options.data)
    subjects = Subjects(file, scratch, options.limit)
    log = scratch / "log"
    # Fill the page cache, so that the first command does not wait for the disk.
    measure(("cat", str(file)), {}, log, options.limit)
    for name, group in subjects.groups().items():
        if name.startswith(tuple(options.only)):
            # One round for the many metrics, which are not compared with anything.
            rounds = 1 if name.startswith("metrics") else options.rounds
            result.groups[name] = take_turns(group, rounds, log, options.limit)
    shutil.rmtree(scratch)


def take_turns(
    group: Sequence[Subject], rounds: int, log: Path, limit_s: float
) -> dict[str, list[Cost] | str]:
    """Measure the commands of a group in turns; one that fails or times out is not run again."""
    costs: dict[str, list[Cost]] = {subject.name: [] for subject in group if not subject.lacks}
    for round_number in range(rounds):
        for subject in group:
            done = costs.get(subject.name)
            if done is None or (done and not done[-1].usable):
                continue
            subject.prepare()
            done.append(measure(subject.command, subject.environment, log, limit_s))
            _say(f"round {round_number + 1}: {subject.name}: {done[-1].seconds:.2f} s")
    return {subject.name: costs.get(subject.name, subject.lacks) for subject in group}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
