"""Divide kernel names into parts and rate their importance.

Parts are words, template arguments and lambdas, and the pieces between the underscores of generated
names. Operation, tile, precision and layout are most important, parameters, namespaces and wrappers
least.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

# Spellings of nsys, of demanglers and of libraries for the same.
_SPELLINGS = (
    (re.compile(r"\(anonymous namespace\)::|<unnamed>::"), ""),
    (re.compile(r"\[lambda(\([^\[\]]*\)) \(instance (\d+)\)\]"), r"{lambda\1#\2}"),
    (re.compile(r"\([a-zA-Z_][\w: ]*\)(?=-?\d)"), ""),  # (int)4
    (re.compile(r"(?<=\d)(?:ul|u|l)l?\b"), ""),  # 4ul
    (re.compile(r"\btrue\b"), "1"),
    (re.compile(r"\bfalse\b"), "0"),
    (re.compile(r"\blong (?:long|int)\b"), "long"),
    (re.compile(r"\bunsigned (?=int|long|char|short)"), "u"),
    (re.compile(r"\b(?:c10::BFloat16|__(?:nv|hip)_bfloat16|cutlass::bfloat16_t)\b"), "bf16"),
    (re.compile(r"\b(?:c10::Half|__half|cutlass::half_t)\b"), "half"),
    (re.compile(r"\bcutlass::tfloat32_t\b"), "tf32"),
)
_WORD = re.compile(r"::|-?\d+(?![\w.])|[\w$.~-]+|#\d+")
_MANGLED = re.compile(r"[ST]\d*_|(\d{1,4})|L[a-z]+?n?(\d+)E")
_CAMEL = re.compile(r"[A-Z]*[a-z0-9]+|[A-Z]+")
_ONLY_ARGUMENT = re.compile(r"<(\w{25,})>")
_GENERIC = re.compile(r"(?i)(?:device_)?kernel(?:_?\d+|_traits)?|run|type|params|operator|invoke")
_LONG = 24  # characters; of longer words, pieces are left out singly
_LONG_ARGUMENT = 16  # the same for template arguments
_RUN = 3  # at least as many numbers are shown or left out together

LEAST_SHOWN = 3
"""Importance from which on parts are shown if names are alike without them."""

# Importance of parts.
_PARAMETER, _REPEATED, _WRAPPER, _LITTLE, _DETAIL = 0, 1, 2, 3, 4
_NUMBERS, _TYPE, _PLAIN, _TRAIT, _OPERATION, _NAME = 5, 6, 7, 8, 9, 12

# Importance of a piece of a generated name, by the first pattern that matches all of it.
_PIECE_PATTERNS = (
    (re.compile(r"warp.*|tensor\d.*|w[rst]\d.*|t[ab]\d.*"), _DETAIL),
    (re.compile(r"(?:[a-zA-Z]{,4}|tilesize)\d+x\d+(?:x\d+)*"), _OPERATION),
    (
        re.compile(
            r"(?i).*(?:gemm|gemv|conv|fprop|dgrad|wgrad|bprop|fwd|bwd|wrw|forward|backward|fft|pool"
            r"|winograd|softmax|norm|attn|attention|fmha|sdpa|reduce|gather|scatter|broadcast"
            r"|elementwise|copy|transpose|sendrecv|cijk|nvjet).*"
        ),
        _OPERATION,
    ),
    (re.compile(r"sm\d+|stages?\d*|g\d|align.*|ldg\d"), _DETAIL),
    (
        re.compile(
            r"(?:[a-z]{1,2}|fp|bf|tf)(?:\d{1,2}|16)(?:[a-z]{1,2}\d{1,2})*|e\dm\d|[HSBDIZ]{2,4}"
            r"|half|float|double|hmma|imma|ffma|tensorop|simt"
        ),
        _TRAIT,
    ),
    (re.compile(r"[NT]{2,3}|[nt]{1,3}|n[chw]{3,4}\w*|A[il]+k|B[jl]+k"), _TRAIT),
    (re.compile(r"execute|kernel\d*|cudnn|cublas|trt|5x|cask|generated|fort|native"), _LITTLE),
    (re.compile(r"triton|fused|xmma|cutlass|ampere|volta|turing|maxwell|hopper|impl"), _DETAIL),
)
# The same for a template argument.
_ARGUMENT_PATTERNS = (
    (re.compile(r"#1"), _REPEATED),  # most lambdas are the first of their function
    (re.compile(r"#\d+"), _DETAIL),
    (
        re.compile(
            r"[Aa]rray|TensorIterator(?:Base)?|(?:Trivial)?OffsetCalculator|(?:Load|Store)WithoutCast"
            r"|gpu_kernel_impl(?:_nocast)?|func_wrapper_t|operator|lambda|const|u?char|void|uint"
            r"|std|at|c10|native|detail|(?:binary_)?internal|memory|cub|cute|cutlass|(?:xmma_)?cudnn"
        ),
        _WRAPPER,
    ),
    (re.compile(r"float|half|bf16|tf32|double|u?long|u?int\d*(?:_t)?|bool|short"), _TYPE),
    (re.compile(r"(?:Binary|[AB]?Unary)Functor|ReduceOp|Ampere|Volta|Turing|Hopper"), _DETAIL),
    (_GENERIC, _LITTLE),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a kernel name."""

    text: str
    importance: int
    before: str  # written in front of its word: "::", or ", " in a template
    word: int = 0  # number of its word; pieces of a word have the same
    between: str = "_"  # written after the piece in front, of the same word


def parts_of(name: str) -> list[Part]:
    """Divide a name into parts, in its order."""
    base, template, parameters = _mangled(name) if name.startswith("_Z") else _divided(name)
    if only := _ONLY_ARGUMENT.fullmatch(template):  # cutlass::Kernel<cutlass_80_…>
        base, template = only[1], ""
    parts = [*_base(base, _NAME if template else _OPERATION), *_arguments(template, 1_000)]
    least = _arguments(parameters, 1_000_000)
    return parts + [replace(part, importance=_PARAMETER) for part in least]


def _divided(name: str) -> tuple[str, str, str]:
    # The qualified name of a function, its template arguments and its parameters.
    for pattern, instead in _SPELLINGS:
        name = pattern.sub(instead, name)
    depth, opened, call = 0, -1, len(name)
    for at, character in enumerate(name):
        if character in "<({[":
            if depth == 0 and at:
                # `enable_if<…>::type ns::kernel<…>(…)`: the last lists are those of the function.
                opened, call = (at, call) if character == "<" else (opened, at)
            depth += 1
        elif character in ">)}]":
            depth = max(0, depth - 1)
    if not 0 <= opened < call:
        return name[:call], "", name[call:]
    return name[:opened], name[opened:call], name[call:]


def _mangled(name: str) -> tuple[str, str, str]:
    # The identifiers and numbers of a mangled name that no library could demangle.
    lists: list[list[str]] = [[], []]  # before and after the first template arguments
    at, inside = 2, 0
    while match := _MANGLED.search(name, at):
        at = match.end() + int(match[1] or 0)
        lists[inside].append(name[match.end() : at] if match[1] else match[2] or "")
        inside |= name[at : at + 1] == "I"
    base, arguments = (list(filter(None, some)) for some in lists)
    return "::".join(base), ", ".join(arguments), ""


def _base(base: str, operation: int) -> list[Part]:
    *spaces, last = (base.split() or [base])[-1].rsplit(">::", 1)[-1].split("::")
    parts = []
    for number, space in enumerate(spaces):
        needed = _GENERIC.fullmatch(last) and number == len(spaces) - 1
        needed = needed and _importance(space, _ARGUMENT_PATTERNS) == _PLAIN
        parts.append(Part(space, _NAME if needed else _WRAPPER, "::", number))
    if len(last) <= _LONG:
        return [*parts, Part(last, _NAME, "::", len(spaces))]
    pieces = _pieces(last, "::", len(spaces))
    return parts + [
        replace(piece, importance=operation) if piece.importance == _OPERATION else piece
        for piece in pieces
    ]


def _pieces(word: str, before: str, number: int) -> list[Part]:
    # A generated name is divided at its underscores, and long pieces before capitals.
    parts = []
    texts = [text for text in word.split("_") if text] or [word]
    for place, text in enumerate(texts):
        if len(text) > _LONG:
            parts += [
                Part(some, _PLAIN, before, number, "" if inner else "_")
                for inner, some in enumerate(_CAMEL.findall(text) or [text])
            ]
            continue
        importance = _importance(text, _PIECE_PATTERNS)
        if text.isdigit() and place == len(texts) - 1:  # number of a generated kernel
            importance = _NAME
        elif word.startswith("Cijk") and place > 4 and importance < _TRAIT:
            importance = _WRAPPER  # dozens of settings of Tensile
        if text in texts[:place]:
            importance = _REPEATED
        parts.append(Part(text, importance, before, number))
    return parts


def _arguments(text: str, first: int) -> list[Part]:
    parts: list[Part] = []
    for are_numbers, group in groupby(_words(text), key=lambda word: _is_number(word[0])):
        if are_numbers:
            parts += _run([word for word, _ in group], first + len(parts))
            continue
        for word, inner in group:
            parts += _argument(word, inner, first + len(parts))
    seen: set[str] = set()
    for place, part in enumerate(parts):
        if part.text in seen:
            parts[place] = replace(part, importance=_REPEATED)
        seen.add(part.text)
    return parts


def _run(numbers: Sequence[str], number: int) -> list[Part]:
    # Consecutive numbers, often those of a tile: 128x6x7x3x3x5.
    parts, start = [], 0
    while start < len(numbers):
        end = start + _RUN if len(numbers) - start >= 2 * _RUN else len(numbers)
        importance = _NUMBERS if start or len(numbers) < _RUN else _TRAIT
        parts.append(Part("x".join(numbers[start:end]), importance, ", ", number, "x"))
        start = end
    return parts


def _is_number(word: str) -> bool:
    return word.lstrip("-").isdigit()


def _words(text: str) -> list[tuple[str, str]]:
    # Each word and the word that it qualifies: `b` of `a` in `a::b`.
    words = _WORD.findall(text)
    after = [*words[1:], "", ""]
    return [
        (word, after[place + 1] if after[place] == "::" else "")
        for place, word in enumerate(words)
        if word != "::"
    ]


def _argument(word: str, inner: str, number: int) -> list[Part]:
    importance = _importance(word, _ARGUMENT_PATTERNS)
    if importance == _PLAIN and inner:
        importance = _TRAIT if _GENERIC.fullmatch(inner) else _WRAPPER
    elif importance == _PLAIN and len(word) > _LONG_ARGUMENT and word.count("_") > 1:
        return _pieces(word, ", ", number)
    return [Part(word, importance, ", ", number)]


@lru_cache(4096)  # traces repeat a few words
def _importance(text: str, patterns: tuple[tuple[re.Pattern[str], int], ...]) -> int:
    return next((importance for pattern, importance in patterns if pattern.fullmatch(text)), _PLAIN)
