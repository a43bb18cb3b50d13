"""Fuzz all readers with changed inputs of a fixed seed.

Usage: PYTHONPATH=tests:tests/helpers python -m fuzz [--inputs 1000] [--seconds S] [--kinds nsys]

Each input is a small valid file after some changes. It passes if the answer equals the counts of a
plain reader, a note names the rows that were left out, or the file is refused with one line. It
fails on any other exception, on a wrong count without a note, on a crash, and above 10 s. Inputs
that fail are copied to the directory of ``--failures``, named by kind and number; ``--only
KIND:NUMBER`` runs one again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from fuzz.runner import fuzz
from fuzz.seeds import KINDS
from fuzz.target import ANSWERED, DEFECT, NOTED, REFUSED

# Three inputs of these take as long as one of the others.
_CHEAP = ("nvprof-csv", "snapshot", "memory-log", "nccl-log", "mxnet-csv", "archive")
_VERDICTS = (ANSWERED, NOTED, REFUSED, DEFECT)


def main() -> None:
    """Run the command line; exit code 1 if an input failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="run one input")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    options = parser.parse_args()
    turns = [kind for kind in options.kinds for _ in range(3 if kind in _CHEAP else 1)]
    inputs = [(turns[i % len(turns)], i) for i in range(options.inputs)]
    if options.only:
        kind, _, number = options.only.partition(":")
        inputs = [(kind, int(number))]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind, _ in inputs}
    begin = time.monotonic()
    for outcome in fuzz(inputs, options.seed, options.seconds, options.failures):
        counts[outcome.kind][outcome.verdict] += 1
        if outcome.verdict == DEFECT or options.only:
            print(
                f"{outcome.kind}:{outcome.number}: {outcome.verdict}: {outcome.message}",
                file=sys.stderr,
            )
    if options.json:
        print(json.dumps(counts))
    else:
        print(table(counts))
        print(f"\n{sum(c.total() for c in counts.values()):,} inputs of seed {options.seed} "
              f"in {time.monotonic() - begin:.0f} s")  # fmt: skip
    sys.exit(any(count[DEFECT] for count in counts.values()))


def table(counts: dict[str, Counter[str]]) -> str:
    """Return the outcomes by kind as Markdown."""
    lines = [f"| kind | inputs | {' | '.join(_VERDICTS)} |", "|---|" + "---:|" * 5]
    for kind, count in counts.items():
        cells = (count.total(), *(count[verdict] for verdict in _VERDICTS))
        lines.append(f"| {kind} | {' | '.join(f'{cell:,}' for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
