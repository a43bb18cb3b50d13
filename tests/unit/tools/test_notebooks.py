"""The notebooks of the documentation run, and their stored outputs are current."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import notebooks

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("sample_cache")]
PAGES = sorted(notebooks.PLACE.glob("*.ipynb"))


def texts(notebook: dict[str, Any]) -> list[str]:
    return [
        "".join(output["data"]["text/plain"])
        for cell in notebooks.code_cells(notebook)
        for output in cell["outputs"]
    ]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.nightly) if path.stem == "paper_figures" else path
        for path in PAGES
    ],
    ids=lambda path: path.stem,
)
def test_a_notebook_gives_its_stored_outputs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(notebooks.ROOT)
    stored = json.loads(path.read_text(encoding="utf-8"))
    expected = texts(stored)
    notebooks.run(stored)
    assert texts(stored) == expected
    assert len(expected) >= 3


def test_there_are_three() -> None:
    assert [path.stem for path in PAGES] == ["own_query", "paper_figures", "why_slow"]
