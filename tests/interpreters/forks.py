"""Runs programs in forks of an interpreter that has imported a framework, which takes seconds.

Usage: python forks.py MODULE... Reads a run as JSON from each line of standard input, and answers
its exit code. Nothing but the imports is shared: TensorFlow begins no thread before its first
operation, and looks at its environment only then.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from typing import Any, NoReturn


def main(modules: list[str]) -> None:
    """Import the modules, then run until standard input ends."""
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(
    words: list[str], environment: dict[str, str], folder: str, output: list[str], seconds: int
) -> NoReturn:
    """Be the interpreter that is called with ``words``: a script, or -m and a module."""
    signal.alarm(seconds)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(output, 1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code: Any = 0
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code or 0
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
