"""Old names of relations and columns, and the messages about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tbd_trace
from corpus import ROOT
from tbd_trace.errors import SqlError
from tbd_trace.query import renamed
from tbd_trace.query.catalogue import derived_relation
from tbd_trace.query.renamed import Renamed, column_hint, resolve_old_names


@pytest.mark.parametrize(
    ("since", "until"), [("0.2.0", "0.4.0"), ("0.9.1", "0.11.0"), ("1.0.0", "1.2.0")]
)
def test_an_old_name_works_for_two_minor_versions(since: str, until: str) -> None:
    assert Renamed("x", since).until == until


def test_a_note_has_both_names_and_both_versions() -> None:
    assert resolve_old_names(["gap_cause", "nvtx_tree", "kernel"]).notes == [
        "the relation gap_cause is called idle_interval_cause since 0.2.0; the old name works "
        "until 0.4.0",
        "the relation nvtx_tree is called annotation_tree since 0.2.0, and its column "
        "nvtx_range_id is called annotation_id; the old name works until 0.4.0",
    ]


@pytest.fixture
def made_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names of several versions in place of the real ones."""
    derived_relation("annotation_tree")  # read before the queries are another directory
    (tmp_path / "renamed.toml").write_text(
        '["0.9.0".relations]\nold_tree = "annotation_tree"\n'
        '["0.10.0".relations]\nnew_tree = "annotation_tree"\n'
        '["0.9.0".columns]\nmark = "annotation_id"\n'
        '["0.10.0".columns]\nabove = "parent_id"\n'
    )
    monkeypatch.setattr(renamed.resources, "queries", lambda: tmp_path)
    renamed.renamed.cache_clear()
    yield
    renamed.renamed.cache_clear()


@pytest.mark.usefixtures("made_names")
def test_an_old_relation_has_the_columns_that_changed_with_it_or_later() -> None:
    found = resolve_old_names(["old_tree", "new_tree"])
    assert found.statements == [
        "CREATE OR REPLACE VIEW new_tree AS "
        "SELECT * RENAME (parent_id AS above) FROM annotation_tree",
        "CREATE OR REPLACE VIEW old_tree AS "
        "SELECT * RENAME (annotation_id AS mark, parent_id AS above) FROM annotation_tree",
    ]
    assert found.required == {"annotation_tree"}
    assert "since 0.10.0, and its column above is called parent_id; the" in found.notes[0]


@pytest.mark.slow
@pytest.mark.usefixtures("sample_cache")
@pytest.mark.parametrize("column", ["nvtx_range_id", "s.nvtx_range_id"])
def test_an_error_about_an_old_column_has_the_new_name(column: str) -> None:
    traces = tbd_trace.open(ROOT / "data" / "samples" / "synthetic_cnn")
    with pytest.raises(SqlError) as raised:
        traces.sql(f"SELECT {column} FROM kernel_scope s")
    assert str(raised.value).endswith(
        "\nthe column nvtx_range_id is called annotation_id since 0.2.0"
    )


def test_other_errors_have_no_hint() -> None:
    assert not column_hint('Referenced column "nvtx_range" not found in FROM clause!')
