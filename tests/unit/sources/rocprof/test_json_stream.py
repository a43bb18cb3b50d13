"""A document is walked through in small steps as ``json`` reads it whole."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.sources.rocprof import json_stream
from tbd_trace.sources.rocprof.json_stream import JsonStream

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def walked(stream: JsonStream, like: Any) -> Any:
    """Return a value, objects and lists item by item."""
    if isinstance(like, dict):
        return {key: walked(stream, like[key]) for key in stream.fields()}
    if isinstance(like, list):
        return [walked(stream, like[number]) for number, _ in enumerate(stream.items())]
    return stream.value()


@given(VALUES, st.sampled_from((None, 2)), st.integers(1, 7))
def test_documents_are_read_in_any_steps(value: Any, indent: int | None, step: int) -> None:
    text = json.dumps([value, 12345], indent=indent, ensure_ascii=False).encode(errors="replace")
    whole = json.loads(text)
    content = io.BytesIO(text)
    assert walked(JsonStream(lambda _: content.read(step)), whole) == whole
    content = io.BytesIO(text)
    stream = JsonStream(lambda _: content.read(step))
    items = stream.items()
    next(items)
    stream.skip()
    next(items)
    assert stream.value() == 12345


@pytest.mark.parametrize("text", ["", "[1, 2", "[1 2]", '{"a" 1}', '{"a": }', "[1,]", "{1: 2}"[:3]])
def test_invalid_documents_are_errors(text: str) -> None:
    content = io.BytesIO(text.encode())
    stream = JsonStream(content.read)
    with pytest.raises(ValueError, match=r"."):
        walked(stream, [0, 0, 0] if text[:1] == "[" else {"a": 0, "1": 0})


def test_a_long_value_is_not_read_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_MOST_TEXT", 100)
    content = io.BytesIO(b'["' + b"x" * 1000 + b'"]')
    stream = JsonStream(lambda _: content.read(10))
    with pytest.raises(ValueError, match="Unterminated string"):
        list(stream.values())
