"""C++ kernel names: from mangled to readable, and from either to the base function name."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

_OPENS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSES = {close: open_ for open_, close in _OPENS.items()}
# Brackets that are part of an operator's name, longest first; an arrow closes nothing either.
_OPERATOR = re.compile(r"\boperator\s*(?:\(\)|\[\]|<=>|<<=|>>=|->\*|->|<<|>>|<=|>=|<|>)|->")
_HIDE = str.maketrans("<>()[]", "\x01\x02\x03\x04\x05\x06")
_SHOW = str.maketrans("\x01\x02\x03\x04\x05\x06", "<>()[]")
_ARGUMENTS = "\0"  # stands for one "(…)" in a skeleton
_ARGUMENT_LIST = re.compile(f"{_ARGUMENTS}(?!::)")  # not "(anonymous namespace)::"
_MANGLED_PREFIX = re.compile(r"_Z(N[rVK]*)?(?:St)?(?=\d)")
_DIGITS = re.compile(r"\d+")


@cache
def _library() -> Any | None:
    """Return the demangling library, None where it finds no C++ runtime to work with."""
    try:
        library = import_module("cxxfilt")
        library.demangle("_Z1fv")
    except Exception:  # it fails in its own, the loader's and the runtime's ways
        return None
    return library


def can_demangle() -> bool:
    """Tell whether a C++ runtime library is there to demangle with."""
    return _library() is not None


def is_mangled(name: str) -> bool:
    """Tell whether a name is (still) mangled in the Itanium C++ way."""
    return _MANGLED_PREFIX.match(name) is not None


def demangle(name: str) -> str:
    """Return the readable form of a mangled name, or the name itself where there is none."""
    library = _library()
    if library is None:
        return name
    try:
        return str(library.demangle(name))
    except (library.Error, UnicodeDecodeError):
        return name


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
    """Return the text outside all brackets, with a mark where a parenthesis was."""
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
    """Close a bracket: a ">" only its own "<", any other also what is left open inside."""
    if opening == "<":
        if stack and stack[-1] == "<":
            stack.pop()
    elif opening in stack:
        while stack.pop() != opening:
            pass


def _mangled_base(name: str) -> str | None:
    """Return the last plain identifier of a mangled name's qualified name."""
    prefix = _MANGLED_PREFIX.match(name)
    identifier = None
    at = prefix.end() if prefix else len(name)
    while digits := _DIGITS.match(name, at):
        at = digits.end() + int(digits[0])
        identifier = name[digits.end() : at]
        if prefix and not prefix[1]:  # not nested: what follows are its arguments
            break
    return identifier or None
