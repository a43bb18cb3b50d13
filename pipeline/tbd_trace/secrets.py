"""Command lines without their secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
    rf"({_NAME.pattern}[\w.-]*[\"']?\s*[=:]\s*(?:(?:Bearer|Basic)\s+)?){_VALUE}", re.IGNORECASE
)
_INNER_OPTION = re.compile(
    rf"((?<!\S)--?[\w.-]*?{_NAME.pattern}[\w.-]*\s+)(?!-){_VALUE}", re.IGNORECASE
)
# user:password@host in an address
_ADDRESS = re.compile(r"(?<=://)[^/@\s:]*:[^/\s]+(?=@)")
# Tokens that are known by how they begin: of GitHub, Hugging Face, OpenAI, AWS, Slack and such.
_TOKEN = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10,}|glpat-[\w-]{20,}|wandb_v\d+_\w{20,})"
)


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
        if assignment and _is_secret(assignment[1]):
            hidden.append(f"{assignment[1]}={HIDDEN}")
        else:
            hidden.append(_without_inner(argument))
        after_secret_option = (
            argument.startswith("-") and not assignment and _is_secret(argument.split()[0])
        )
    return hidden


def _is_secret(name: str) -> bool:
    return _NAME.search(_CAMEL.sub("-", name)) is not None


def _without_inner(argument: str) -> str:
    """Return an argument without the secrets that are inside it."""
    for pattern in (_ADDRESS, _TOKEN):
        argument = pattern.sub(HIDDEN, argument)
    for pattern in (_INNER_ASSIGNMENT, _INNER_OPTION):
        argument = pattern.sub(rf"\g<1>{HIDDEN}", argument)
    return argument
