"""Command lines and texts without their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

HIDDEN = "***"
_WORDS = (
    r"(?:pass(?:words?|wd|phrase)?|secrets?|token|credentials?|auth(?:orization)?|(?:api|access"
    r"|account|encryption|license|private|secret|signing|wandb)[-_]?keys?)"
)
# A whole word: the tokenizer and the author are no secrets.
_NAME = re.compile(rf"(?<![^\W_]){_WORDS}(?![^\W_])", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNMENT = re.compile(r"^([-+~]*[\w./-]+)=(.*)$", re.DOTALL)
# The same inside a script or JSON that is one argument.
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s"',;}]+)"""
_INNER_ASSIGNMENT = re.compile(
    rf"({_NAME.pattern}[\w.-]*[\"']?\s*(?:=|:(?!:))\s*(?:(?:Bearer|Basic)\s+)?){_VALUE}",
    re.IGNORECASE,
)
_INNER_OPTION = re.compile(
    rf"((?<!\S)--?[\w.-]*?{_NAME.pattern}[\w.-]*\s+)(?!-){_VALUE}", re.IGNORECASE
)
# user:password@host in an address
_ADDRESS = re.compile(r"(?<=://)[^/@\s:]*:[^/\s]+(?=@)")
# Tokens that are known by how they begin: of GitHub, Hugging Face, OpenAI, AWS, Slack, Google and
# such, and JSON web tokens.
_TOKEN = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10,}|glpat-[\w-]{20,}|wandb_v\d+_\w{20,}"
    r"|AIza[\w-]{35}|nvapi-[\w-]{40,}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{40,}|r8_[A-Za-z0-9]{37}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})"
)
_PATTERNS = (_ADDRESS, _TOKEN, _INNER_ASSIGNMENT, _INNER_OPTION)
# Language models count tokens, and every model makes forward and backward passes.
_COUNTED = re.compile(r"(?:token|pass)\W*$", re.IGNORECASE)
_COUNT = re.compile(r"[-+]?[\d.,/]{1,8}|true|false|none|null", re.IGNORECASE)
_PASS = re.compile(r"(?<!\S)pass\s*:", re.IGNORECASE)
_HIDDEN_ALREADY = (HIDDEN, "<redacted>", "[redacted]")


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Return a command line in which values that look like secrets are ``***``.

    Hidden are values of options and assignments whose name has a word such as password, token or
    key in it (in scripts and JSON too that are one argument), passwords in addresses, and tokens
    that are known by their prefix.
    """
    hidden: list[str] = []
    after_secret_option = False
    for argument in arguments:
        if after_secret_option and not argument.startswith("-"):
            hidden.append(HIDDEN)
            after_secret_option = False
            continue
        assignment = _ASSIGNMENT.match(argument)
        if assignment and is_secret_name(assignment[1]):
            hidden.append(f"{assignment[1]}={HIDDEN}")
        else:
            hidden.append(_without_inner(argument))
        after_secret_option = (
            argument.startswith("-") and not assignment and is_secret_name(argument.split()[0])
        )
    return hidden


def text_without_secrets(text: str, found: Callable[[str], object] | None = None) -> str:
    """Return any text in which values that look like secrets are ``***``.

    As :func:`without_secrets` inside one argument, but what models count and do stays:
    ``token: 3/128``, ``forward pass: block 3``.

    Args:
        text: the text.
        found: called with each secret, and the name before it if any.
    """

    def hide(match: re.Match[str]) -> str:
        name = match[1] if match.re.groups else ""
        value = match[0].removeprefix(name)
        counted = _COUNTED.search(name) and _COUNT.fullmatch(value.strip("\"'"))
        if counted or value.strip("\"'") in _HIDDEN_ALREADY or _PASS.match(text, match.start()):
            return match[0]
        if found is not None:
            found(match[0])
        return f"{name}{HIDDEN}"

    for pattern in _PATTERNS:
        text = pattern.sub(hide, text)
    return text


def is_secret_name(name: str) -> bool:
    """Tell whether a name of an option, a variable or a field announces a secret."""
    return _NAME.search(_CAMEL.sub("-", name)) is not None


def _without_inner(argument: str) -> str:
    """Return an argument without the secrets that are inside it."""
    for pattern in _PATTERNS:
        argument = pattern.sub(rf"\g<1>{HIDDEN}" if pattern.groups else HIDDEN, argument)
    return argument
