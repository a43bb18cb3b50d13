"""CHANGELOG.md agrees with the version, the citation and the old names; its sections are dated."""

from __future__ import annotations

import re

import pytest

import changelog
import tbd_trace
from changelog import PLACEHOLDER, dated, numbers, parse
from corpus import ROOT
from tbd_trace.query.renamed import renamed

SECTIONS = parse((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[1]
VERSIONS = [section.version for section in SECTIONS]
RELEASED = [section for section in SECTIONS if section.is_released]
OLD_NAMES = renamed("relations") | renamed("columns")
TEXT = f"""# Changelog

## 0.3.0 (unreleased)

{PLACEHOLDER}

### New

- A command.

## 0.2.0 (2026-11-29)

### Fixed

- A bug.
"""


def test_every_section_is_of_a_version_the_newest_first() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(SECTIONS) >= 2
    assert [*map(numbers, VERSIONS)] == sorted({*map(numbers, VERSIONS)}, reverse=True)
    assert [section.date for section in RELEASED] == sorted(
        (section.date for section in RELEASED), reverse=True
    )


def test_only_the_next_version_is_unreleased() -> None:
    assert SECTIONS[-len(RELEASED) :] == RELEASED
    assert len(SECTIONS) - len(RELEASED) <= 1


@pytest.mark.parametrize("section", SECTIONS, ids=VERSIONS)
def test_changes_are_in_the_order_of_users(section: changelog.Section) -> None:
    kinds = re.findall(r"^### (.*)$", section.body, re.MULTILINE)
    assert kinds == [kind for kind in ("New", "Changed", "Fixed") if kind in kinds]
    assert bool(kinds) == bool(section.changes)


def test_the_package_has_the_version_of_the_last_release() -> None:
    assert RELEASED[0].version == tbd_trace.__version__


def test_the_citation_is_of_the_last_release() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {RELEASED[0].version}\n" in citation
    assert f"\ndate-released: {RELEASED[0].date}\n" in citation


# old names


@pytest.mark.parametrize("name", OLD_NAMES)
def test_old_names_are_of_versions_of_the_changelog(name: str) -> None:
    assert OLD_NAMES[name].since in VERSIONS[:-1]  # the first version renamed nothing


@pytest.mark.parametrize("name", OLD_NAMES)
def test_old_names_end_on_time(name: str) -> None:
    until = OLD_NAMES[name].until
    assert numbers(until) > numbers(VERSIONS[0]), f"remove {name}: it works until {until}"


# sections


def test_sections_have_version_date_and_text() -> None:
    introduction, (new, old) = parse(TEXT)
    assert introduction == "# Changelog\n\n"
    assert (new.version, new.date, new.is_released) == ("0.3.0", "unreleased", False)
    assert new.changes == "### New\n\n- A command."
    assert (old.version, old.date, old.is_released) == ("0.2.0", "2026-11-29", True)
    assert old.changes == "### Fixed\n\n- A bug."


def test_a_release_dates_its_section_and_begins_the_next() -> None:
    assert dated(TEXT, "0.3.0", "2027-01-02") == TEXT.replace(
        f"0.3.0 (unreleased)\n\n{PLACEHOLDER}\n",
        f"0.4.0 (unreleased)\n\n{PLACEHOLDER}\n\n## 0.3.0 (2027-01-02)\n",
    )


def test_a_patch_release_leaves_the_next_version_as_it_is() -> None:
    text = TEXT.replace(
        "## 0.2.0", "## 0.2.1 (unreleased)\n\n### Fixed\n\n- Another.\n\n## 0.2.0"
    ).replace(f"{PLACEHOLDER}\n\n", "")
    expected = text.replace("0.2.1 (unreleased)", "0.2.1 (2027-01-02)")
    assert dated(text, "0.2.1", "2027-01-02") == expected


def test_a_dated_section_is_not_dated_again() -> None:
    assert dated(TEXT, "0.2.0", "2027-01-02") == TEXT


@pytest.mark.parametrize(
    ("text", "version", "message"),
    [
        (TEXT, "0.4.0", "no section of 0.4.0"),
        (TEXT.replace("### New\n\n- A command.\n", ""), "0.3.0", "section 0.3.0 has no changes"),
    ],
)
def test_a_version_without_changes_has_no_date(text: str, version: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dated(text, version, "2027-01-02")


@pytest.mark.parametrize(
    "text", ["", "0.3", "0.3.0.0", "v0.3.0", "0.03.0", "0.3.0rc1", "0.3.x", " 0.3.0", "0.3.٣"]
)
def test_versions_are_three_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="use three numbers"):
        numbers(text)


def test_versions_compare_by_number() -> None:
    assert numbers("0.10.0") > numbers("0.9.3")
