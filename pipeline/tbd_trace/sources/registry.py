"""Find the readers of profiler files: each package of this directory, then installed plug-ins.

A package registers itself with its attribute ``TOOL`` (see :mod:`tbd_trace.sources.tool`).
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbd_trace import sources as packages
from tbd_trace.errors import InputError
from tbd_trace.sources.tool import Tool

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tbd_trace.sources.base import Source

PLUGINS = "tbd_trace.sources"
"""Entry-point group; each entry is a package or module with an attribute ``TOOL``."""

# Most frequent first: each is imported until one matches.
_ORDER = ("nsys", "torch_memory", "nvprof", "ncu")
_HEAD_BYTES = 65_536
_LFS_MAGIC = b"version https://git-lfs.github.com/spec/"


class PluginWarning(UserWarning):
    """A plug-in does not work; its formats are not read."""


@cache
def tools() -> dict[str, Tool]:
    """Return the tools of this package by name, in the order of detection."""
    names = [module.name for module in pkgutil.iter_modules(packages.__path__) if module.ispkg]
    names.sort(key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    modules = [import_module(f"{packages.__name__}.{name}") for name in names]
    ordered: list[Tool] = [module.TOOL for module in modules if hasattr(module, "TOOL")]
    return {tool.name: tool for tool in ordered}


@cache
def plugins() -> dict[str, Tool]:
    """Return the tools of installed plug-ins by name; one that fails is reported and left out."""
    # Imported late: it takes 20 ms, and a file of a known tool needs no plug-in.
    from importlib.metadata import entry_points  # noqa: PLC0415

    loaded = [(entry.name, _loaded(entry)) for entry in entry_points(group=PLUGINS)]
    return {tool.name: tool for _, tool in loaded if tool is not None}


def tool(name: str) -> Tool | None:
    """Return the tool of a name, None if it is unknown."""
    return tools().get(name) or plugins().get(name)


def sources() -> Iterator[Source]:
    """Yield the sources in the order of detection, each imported when it is its turn."""
    for each in tools().values():
        for place in each.formats.values():
            yield load(place)
    for each in plugins().values():
        for place in each.formats.values():
            try:
                yield load(place)
            except Exception as error:
                _report(each.name, error)


def identify(path: Path) -> Source:
    """Return the source that reads a file.

    Raises:
        InputError: the file is missing, unreadable or of an unsupported format.
    """
    head = _head(path)
    for source in sources():
        if _detects(source, path, head):
            return source
    from tbd_trace.sources.unknown import what_it_is  # noqa: PLC0415 - known files need none

    accepted = [tool.accepts for tool in (*tools().values(), *plugins().values())]
    raise InputError(f"{path}: {what_it_is(path, head, accepted)}")


def tool_of(path: Path, head: bytes) -> Tool | None:
    """Return the tool whose format a file has, None if it is unsupported."""
    for each in (*tools().values(), *plugins().values()):
        if any(_detects(load(place), path, head) for place in each.formats.values()):
            return each
    return None


def load(place: str) -> Any:
    """Return the object at ``module:attribute``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _loaded(entry: EntryPoint) -> Tool | None:
    try:
        tool = entry.load().TOOL
        if not isinstance(tool, Tool):
            raise TypeError("its TOOL is not a tbd_trace.sources.tool.Tool")
    except Exception as error:
        _report(entry.name, error)
        return None
    return tool


def _detects(source: Source, path: Path, head: bytes) -> bool:
    if source.format in {name for each in tools().values() for name in each.formats}:
        return source.detect(path, head)
    try:
        return source.detect(path, head)
    except Exception as error:
        _report(source.format, error)
        return False


def _report(name: str, error: Exception) -> None:
    warnings.warn(
        f"source plug-in {name!r} failed ({type(error).__name__}: {error}); update or uninstall it",
        PluginWarning,
        stacklevel=3,
    )


def check_readable(path: Path) -> None:
    """Make sure that a path is that of a file with something in it.

    Raises:
        InputError: it is not, or may not be read.
    """
    _head(path)


def _head(path: Path) -> bytes:
    try:
        if path.is_fifo() or path.is_char_device():  # reading might never end
            raise InputError(f"{path}: not a file; write the profile to a file first")
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(
            f"{path}: a directory without capture.json; name the profiler file in it"
        ) from None
    except PermissionError:
        raise InputError(f"{path}: no permission to read it; check its owner and mode") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not head:
        raise InputError(
            f"{path}: empty file: incomplete, as the profiler, the export or a copy was "
            "interrupted; copy it again, or export the report again "
            "(`nsys export --type sqlite --force-overwrite true REPORT`)"
        )
    if head.startswith(_LFS_MAGIC):
        raise InputError(
            f"{path}: a Git LFS pointer, not the profile; run `git lfs pull` where it came from"
        )
    return head
