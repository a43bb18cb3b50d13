"""Errors that a user can act on; each carries the exit code of the command line."""

from __future__ import annotations


class TbdTraceError(Exception):
    """One clear line for the user: what is wrong and what to do. Exit code 1."""

    exit_code = 1


class InputError(TbdTraceError):
    """A file cannot be read as a profile. Exit code 1."""


class StoreError(TbdTraceError):
    """The database cannot be opened or written. Exit code 1."""


class UsageError(TbdTraceError):
    """The request itself is wrong: an unknown name, a value not allowed. Exit code 2."""

    exit_code = 2


class SqlError(UsageError):
    """SQL of the user's own is wrong; more lines may point at the place. Exit code 2."""


class CannotAnswerError(TbdTraceError):
    """The trace lacks what the question needs. Exit code 3."""

    exit_code = 3
