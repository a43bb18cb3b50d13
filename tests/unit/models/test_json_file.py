"""A JSON file is written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tbd_models.json_file import write_json


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [*tmp_path.iterdir()] == [path]
