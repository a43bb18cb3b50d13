"""The sections of CHANGELOG.md, by version."""

from __future__ import annotations

import re
from dataclasses import dataclass

PLACEHOLDER = "Changes that users notice go here, as New, Changed or Fixed."
"""The text of a section without changes."""

_HEADING = re.compile(r"^## (?P<version>.*) \((?P<date>unreleased|\d{4}-\d\d-\d\d)\)$", re.M)
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Section:
    """The changes of a version."""

    version: str
    date: str  # of the release, or unreleased
    body: str

    @property
    def is_released(self) -> bool:
        """True if the section has a date."""
        return self.date != "unreleased"

    @property
    def changes(self) -> str:
        """The text without the placeholder, empty if there are no changes."""
        return self.body.replace(PLACEHOLDER, "").strip()

    @property
    def text(self) -> str:
        """Heading and changes as in the file."""
        return f"## {self.version} ({self.date})\n\n{self.changes or PLACEHOLDER}\n"


def numbers(version: str) -> tuple[int, int, int]:
    """Parse a version of three numbers, such as 0.2.0.

    Raises:
        ValueError: it is another text.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is not a version; use three numbers, such as 0.2.0")
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


def parse(text: str) -> tuple[str, list[Section]]:
    """Return the introduction of a changelog, and its sections."""
    headings = [*_HEADING.finditer(text)]
    ends = [match.start() for match in headings] + [len(text)]
    sections = [
        Section(match["version"], match["date"], text[match.end() : end])
        for match, end in zip(headings, ends[1:], strict=True)
    ]
    return text[: ends[0]], sections


def dated(text: str, version: str, date: str) -> str:
    """Date the section of a version, and begin that of the next one if there is none.

    Raises:
        ValueError: the version has no section, or its section has no changes.
    """
    introduction, sections = parse(text)
    places = [place for place, section in enumerate(sections) if section.version == version]
    if not places:
        raise ValueError(f"no section of {version}; name the section of the next version so")
    (place,) = places
    if sections[place].is_released:
        return text
    if not sections[place].changes:
        raise ValueError(f"section {version} has no changes; add what users notice")
    sections[place] = Section(version, date, sections[place].body)
    if all(section.is_released for section in sections):
        major, minor, _ = numbers(version)
        sections.insert(0, Section(f"{major}.{minor + 1}.0", "unreleased", ""))
    return introduction + "\n".join(section.text for section in sections)
