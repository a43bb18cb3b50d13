"""Redact passwords, keys and tokens in command lines and texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module

HIDDEN = "***"
_WORDS = (
    r"(?:pass(?:words?|wd|phrase)?|secrets?|token|credentials?|auth(?:orization)?|(?:api|access"
    r"|account|encryption|license|private|secret|signing|wandb)[-_]?keys?)"
)
# Whole words only: `tokenizer` and `author` do not name secrets.
_NAME = re.compile(rf"(?<![^\W_]){_WORDS}(?![^\W_])", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNMENT = re.compile(r"^([-+~]*[\w./-]+)=(.*)$", re.DOTALL)
# Assignments and options inside one argument, which may be a script or JSON.
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s"',;}]+)"""
_INNER_ASSIGNMENT = re.compile(
    rf"({_NAME.pattern}[\w.-]*[\"']?\s*(?:=|:(?!:))\s*(?:(?:Bearer|Basic)\s+)?){_VALUE}",
    re.IGNORECASE,
)
_INNER_OPTION = re.compile(
    rf"""((?<![^\s"'`([{{,])--?[\w.-]*?{_NAME.pattern}[\w.-]*\s+)(?!-){_VALUE}""", re.IGNORECASE
)
# user:password in a URL such as https://user:password@host
_ADDRESS = re.compile(r"(?<=://)[^/@\s:]*:[^/\s]+(?=@)")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)",
    re.DOTALL,
)
# Tokens with a documented prefix: GitHub (ghp_, github_pat_), Hugging Face (hf_), OpenAI (sk-),
# AWS (AKIA, ASIA), Slack (xox?-), GitLab (glpat-), Weights & Biases, Google (AIza), NVIDIA
# (nvapi-), npm, PyPI, Replicate (r8_), and JSON web tokens (eyJ).
_TOKEN = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10,}|glpat-[\w-]{20,}|wandb_v\d+_\w{20,}"
    r"|AIza[\w-]{30,}|nvapi-[\w-]{40,}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{40,}|r8_[A-Za-z0-9]{37}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})"
)
# Modules and classes of detect-secrets whose patterns identify a token by its form. The others
# recognise any random text (names of kernels are), or search for what the patterns here find.
_DETECTORS = (
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("discord", "DiscordBotTokenDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"),
    ("openai", "OpenAIDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"),
    ("twilio", "TwilioKeyDetector"),
)
# Occurs in every text in which a pattern of the detectors, _PRIVATE_KEY or _TOKEN matches.
TOKEN_CANDIDATE = (
    r"PRIVATE KEY|(?:gh[pousr]|github_pat|hf|npm|r8|wandb_v[0-9]+)_|(?:sk|nvapi|pypi|xox[a-zA-Z])-"
    r"|gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-|GR1348941|AIza|eyJ|A(?:3T|BIA|CCA|KIA|SIA)"
    r"|(?i:aws)|(?i:xox)|_authToken|T3BlbkFJ|(?i:hooks\.slack)|AccountKey=|SG\.|sq0csp|[rs]k_live_|[0-9]{8}:|-us[0-9]|(?:AC|SK)[a-z0-9]{32}"
    r"|[MNO][\w-]{23,25}\."
)
"""Pattern, for RE2 and for Python, of the texts in which a token may be."""
_NAMED = (_INNER_ASSIGNMENT, _INNER_OPTION)  # group 1 is the name, which stays
# "token: 3/128" counts tokens and "forward pass: 4" counts passes; neither is a secret.
_COUNTED = re.compile(r"(?:token|pass)\W*$", re.IGNORECASE)
_COUNT = re.compile(r"[-+]?[\d.,/]{1,8}|true|false|none|null", re.IGNORECASE)
_PASS = re.compile(r"(?<!\S)pass\s*:", re.IGNORECASE)
_HIDDEN_ALREADY = (HIDDEN, "<redacted>", "[redacted]")


def without_secrets(arguments: Sequence[str]) -> list[str]:
    """Replace values that look like secrets in a command line by ``***``.

    These are values of options and assignments with a name such as password, token or key (also
    inside a script or JSON argument), passwords in URLs, and tokens with a known prefix.
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


def text_without_secrets(text: str, report: Callable[[str], object] | None = None) -> str:
    """Replace values that look like secrets in a text by ``***``.

    Applies the rules of :func:`without_secrets` for one argument, except that counts and passes of
    models stay: ``token: 3/128``, ``forward pass: block 3``.

    Args:
        report: called with each secret, including the name of its assignment.
    """

    def hide(match: re.Match[str]) -> str:
        name = match[1] if match.re in _NAMED else ""
        value = match[0].removeprefix(name)
        counted = _COUNTED.search(name) and _COUNT.fullmatch(value.strip("\"'"))
        if counted or value.strip("\"'") in _HIDDEN_ALREADY or _PASS.match(text, match.start()):
            return match[0]
        if report is not None:
            report(match[0])
        return f"{name}{HIDDEN}"

    for pattern in _patterns(text):
        text = pattern.sub(hide, text)
    return text


def is_secret_name(name: str) -> bool:
    """Return True if an option, variable or field with this name holds a secret."""
    return _NAME.search(_CAMEL.sub("-", name)) is not None


def _without_inner(argument: str) -> str:
    for pattern in _patterns(argument):
        argument = pattern.sub(rf"\g<1>{HIDDEN}" if pattern in _NAMED else HIDDEN, argument)
    return argument


def _patterns(text: str) -> tuple[re.Pattern[str], ...]:
    tokens = _token_patterns() if re.search(TOKEN_CANDIDATE, text) else ()
    return (_ADDRESS, *tokens, *_NAMED)


@cache
def _token_patterns() -> tuple[re.Pattern[str], ...]:
    # Imported at the first redaction, so that other commands start fast.
    detectors = (
        getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
        for module, name in _DETECTORS
    )
    known = (pattern for detector in detectors for pattern in detector.denylist)
    return (_PRIVATE_KEY, _TOKEN, *known)
