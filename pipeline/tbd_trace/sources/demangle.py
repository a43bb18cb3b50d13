"""Demangle C++ kernel names and extract the base name of a function."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

_OPENS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSES = {close: open_ for open_, close in _OPENS.items()}
# Brackets in names of operators, longest first, and the arrow, which are not brackets of a list.
_OPERATOR = re.compile(r"\boperator\s*(?:\(\)|\[\]|<=>|<<=|>>=|->\*|->|<<|>>|<=|>=|<|>)|->")
_HIDE = str.maketrans("<>()[]", "\x01\x02\x03\x04\x05\x06")
_SHOW = str.maketrans("\x01\x02\x03\x04\x05\x06", "<>()[]")
_ARGUMENTS = "\0"  # placeholder of a parenthesis in a skeleton
_ARGUMENT_LIST = re.compile(f"{_ARGUMENTS}(?!::)")  # not "(anonymous namespace)::"
_MANGLED_PREFIX = re.compile(r"_Z(N[rVK]*)?(?:St)?(?=\d)")
_DIGITS = re.compile(r"\d+")


@cache
def _library() -> Any | None:
    try:
        library = import_module("cxxfilt")
        library.demangle("_Z1fv")
    # cxxfilt loads libc and libstdc++ when it is imported. Without them it raises its own
    # LibraryNotFound, OSError or AttributeError, depending on the system.
    except Exception:
        return None
    return library


def can_demangle() -> bool:
    """Return True if a C++ runtime library for demangling is installed."""
    return _library() is not None


def is_mangled(name: str) -> bool:
    """Return True if a name is mangled according to the Itanium C++ ABI."""
    return _MANGLED_PREFIX.match(name) is not None


def demangle(name: str) -> str:
    """Return the demangled name, or the name itself if it cannot be demangled."""
    library = _library()
    if library is None:
        return name
    try:
        return str(library.demangle(name))
    except (library.Error, UnicodeDecodeError):
        return name


@lru_cache(maxsize=4096)  # ranks of a job run the same kernels
def short_name(name: str) -> str:
    """Return the base name of a function: no return type, namespaces, templates or arguments.

    Args:
        name: a demangled name in any tool's style, a mangled one, or a C name.
    """
    if is_mangled(name):
        return _mangled_base(name) or name
    skeleton = _skeleton(_OPERATOR.sub(lambda match: match[0].translate(_HIDE), name))
    lists = [match.start() for match in _ARGUMENT_LIST.finditer(skeleton)]
    if lists:
        skeleton = skeleton[: lists[-1]]
    words = skeleton.rsplit("::", 1)[-1].split()
    return words[-1].translate(_SHOW) if words else name


def _skeleton(text: str) -> str:
    # The text outside all brackets, with a placeholder for each parenthesis.
    outside: list[str] = []
    stack: list[str] = []
    for character in text:
        if character in _OPENS:
            if not stack and character == "(":
                outside.append(_ARGUMENTS)
            stack.append(character)
        elif character in _CLOSES:
            _close(stack, _CLOSES[character])
        elif not stack:
            outside.append(character)
    return "".join(outside)


def _close(stack: list[str], opening: str) -> None:
    # ">" closes only a "<", because it can also be a comparison in a template argument; other
    # brackets also close a "<" that is still open inside them.
    if opening == "<":
        if stack and stack[-1] == "<":
            stack.pop()
    elif opening in stack:
        while stack.pop() != opening:
            pass


def _mangled_base(name: str) -> str | None:
    prefix = _MANGLED_PREFIX.match(name)
    identifier = None
    at = prefix.end() if prefix else len(name)
    while digits := _DIGITS.match(name, at):
        at = digits.end() + int(digits[0])
        identifier = name[digits.end() : at]
        if prefix and not prefix[1]:  # not nested (no N): the arguments follow
            break
    return identifier or None
