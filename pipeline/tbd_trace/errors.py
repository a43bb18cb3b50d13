"""Errors that users can act on; each has the exit code of the command line.

::

    TbdTraceError              1
    ├── InputError             1  a file is not a readable profile
    ├── StoreError             1  a database or archive cannot be read or written
    ├── UsageError             2  the request is wrong
    │   └── SqlError           2  the user's SQL is wrong
    ├── CannotAnswerError      3  the trace lacks the required data
    └── CollectionError        1  a profiler failed (tbd_collectors/process.py)
        └── NotRunnableError 126  a program may not be run; 127 if it does not exist

Messages follow the pattern ``PATH: problem; action``.
"""

from __future__ import annotations


class RenamedWarning(DeprecationWarning):
    """A query uses the old name of a relation."""


class TbdTraceError(Exception):
    """Base class of all errors for users; the message is one line."""

    exit_code = 1


class InputError(TbdTraceError):
    """A file cannot be read as a profile."""


class StoreError(TbdTraceError):
    """A database or archive cannot be opened, read or written."""


class UsageError(TbdTraceError):
    """The request is wrong: an unknown name, or a value that is not allowed."""

    exit_code = 2


class SqlError(UsageError):
    """The user's SQL is wrong; further lines of the message point at the place."""


class CannotAnswerError(TbdTraceError):
    """The trace lacks data that the query requires."""

    exit_code = 3
