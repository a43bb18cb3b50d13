"""Outputs in JSON follow the published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from corpus import ROOT
from tbd_trace import resources
from tbd_trace.cli.main import app

jsonschema = pytest.importorskip("jsonschema")

SAMPLE = str(ROOT / "data" / "samples" / "synthetic_cnn")
MEMORY = str(ROOT / "data" / "samples" / "synthetic_memory" / "snapshot.pickle")
SCHEMAS = resources.data() / "schemas"
pytestmark = pytest.mark.usefixtures("sample_cache")


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}-1.json").read_text(encoding="utf-8"))
    return found


def closed(value: Any) -> Any:
    """Return a schema that allows no property beyond those that it describes."""
    if isinstance(value, dict):
        inner = {key: closed(one) for key, one in value.items()}
        # A schema of an object; an output may also have a property of the name `properties`.
        is_object = value.get("type") == "object" and "properties" in value
        return inner | ({"additionalProperties": False} if is_object else {})
    return [closed(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", sorted(SCHEMAS.iterdir()), ids=lambda path: path.stem)
def test_schemas_are_valid_and_versioned(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(found)
    name, _, version = path.stem.rpartition("-")
    assert found["$id"] == f"urn:tbd-trace:{name}:{version}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("why", ["why", SAMPLE]),
        ("why", ["why", SAMPLE, "--all"]),
        ("why_memory", ["why", MEMORY]),
        ("check", ["check", SAMPLE]),
        ("diff", ["diff", SAMPLE, f"{SAMPLE}/timeline.sqlite"]),
        ("info", ["info", SAMPLE]),
    ],
)
def test_outputs_follow_their_schema(elsewhere: Path, name: str, words: list[str]) -> None:
    done = CliRunner().invoke(app, [*words, "--format", "json"])
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    jsonschema.Draft202012Validator(closed(schema(name))).validate(answer)
    # The control: without one of the required properties it does not.
    changed = list(answer) if isinstance(answer, list) else dict(answer)
    first = changed[0] if isinstance(changed, list) else changed
    del first["trace_id" if "trace_id" in first else "verdict"]
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        jsonschema.Draft202012Validator(schema(name)).validate(changed)
