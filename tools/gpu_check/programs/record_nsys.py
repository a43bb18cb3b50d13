"""Record the program train.py with every nsys of the machine, and export where that is possible."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tbd_collectors import nsys, process
from tbd_collectors.nsys import NsysOptions
from tbd_trace.errors import TbdTraceError

_TIMEOUT_S = 60
_TRAIN = Path(__file__).resolve().with_name("train.py")


@dataclass(slots=True)
class Attempt:
    """What one nsys did."""

    nsys: str
    version: str = ""
    file: str | None = None  # .sqlite, or .qdstrm or .nsys-rep to export elsewhere
    ranges: int | None = None
    kernels: int | None = None
    problem: str | None = None


def main() -> int:
    """Write facts.json with an attempt each; exit with 1 if none gave a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nsys", required=True, help="paths, separated by commas")
    parser.add_argument("--device", default="cuda")
    options, rest = parser.parse_known_args()
    attempts = [
        _attempt(Path(path), number, options.device, rest)
        for number, path in enumerate(options.nsys.split(","))
    ]
    # The first with an export comes first.
    attempts.sort(key=lambda attempt: (attempt.kernels is None, attempt.file is None))
    Path("facts.json").write_text(
        json.dumps([asdict(attempt) for attempt in attempts]), encoding="utf-8"
    )
    for attempt in attempts:
        print(attempt)
    return int(attempts[0].file is None)


def _attempt(path: Path, number: int, device: str, rest: list[str]) -> Attempt:
    attempt = Attempt(str(path))
    os.environ["PATH"] = f"{path.parent}{os.pathsep}{os.environ['PATH']}"
    output = Path(f"nsys-{number}").resolve()
    on_gpu = device == "cuda"
    try:
        tool = nsys.installed()
        attempt.version = tool.version
        program = [sys.executable, str(_TRAIN), "--device", device, "--window", *rest]
        argv = nsys.command(program, output, NsysOptions(gpu=on_gpu), tool)
        done = process.run(
            argv,
            environment=nsys.environment(),
            directory=Path.cwd(),
            timeout_s=_TIMEOUT_S,
            log=Path(f"nsys-{number}.log"),
        )
        recorded = nsys.report(output, done.tail)
        attempt.file = recorded.name
        exported = nsys.export(recorded)
        contents = nsys.check(exported, gpu=on_gpu)
        attempt.file, attempt.ranges = f"nsys-{number}.sqlite", contents.ranges
        exported.replace(exported.with_name("nsys.sqlite"))
        attempt.file, attempt.kernels = "nsys.sqlite", contents.kernels
    except TbdTraceError as error:
        attempt.problem = str(error)
    return attempt


if __name__ == "__main__":
    sys.exit(main())
