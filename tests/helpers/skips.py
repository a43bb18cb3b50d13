"""Which tests must not skip: a test without its requirement checks nothing.

With ``TBD_TRACE_TOOLS_REQUIRED`` no test skips for want of a program, a package or an interpreter,
with ``TBD_TRACE_CORPUS_REQUIRED`` none for want of real traces. ``.ci/run`` sets both.
"""

from __future__ import annotations

import os
import re

_REQUIRED = {
    "TBD_TRACE_TOOLS_REQUIRED": re.compile(
        r"not installed|is missing|could not import|names no interpreter|no C\+\+ runtime library"
    ),
    "TBD_TRACE_CORPUS_REQUIRED": re.compile(
        r"set TBD_TRACE_CORPUS|no real traces|no traces in|no files in|no reference tables"
    ),
}


def must_not(reason: str) -> bool:
    """Return True if a test must fail instead of skipping for this reason."""
    return any(name in os.environ and rule.search(reason) for name, rule in _REQUIRED.items())
