"""Blocks, cuts and damage of PyTorch traces: the events equal those of a plain JSON reader."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import made_kineto as made
from corpus import corpus_files
from fast import examples, first_of_each_format, one_in
from tbd_trace.errors import TbdTraceError
from tbd_trace.query import sql
from tbd_trace.sources.kineto import event_list
from tbd_trace.sources.kineto.event_list import EventList
from tbd_trace.sources.kineto.kept_events import KeptEvents
from tbd_trace.sources.unpacked import Unpacked
from tbd_trace.store import Database

Row = tuple[str, int | None, int | None]
Numbers = tuple[list[Any], list[str]]
NAMES = (
    "gemm", "}, {", '}, {"ph": "X"', '"', "\\", "], ", "é€𝄞", "\x00", "a\nb",
    "]}", '"traceEvents": [',
)  # fmt: skip


def read(content: bytes, path: Path) -> tuple[list[Row], EventList, KeptEvents]:
    """Return the kept rows of a file, with what was counted."""
    path.write_bytes(content)
    with duckdb.connect() as connection, closing(KeptEvents()) as kept:
        with Unpacked(path) as unpacked:
            events = EventList(unpacked, lambda text: kept.load(connection, text))
            found = events.read()
        kept.finish()
        if not found or not kept.events:
            return [], events, kept
        kept.create_view(connection)
        rows = connection.execute(
            "SELECT name, start_ns, duration_ns FROM event ORDER BY event_id"
        ).fetchall()
    return rows, events, kept


def test_the_last_event_is_in_the_last_block(tmp_path: Path) -> None:
    events = [made.kernel(1, start, 1) for start in (1, 2, 3)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, "traceName": "é"}, ensure_ascii=False))
    blocks: list[bytes] = []
    with Unpacked(path) as unpacked:
        found = EventList(unpacked, lambda text: not blocks.append(bytes(text)))
        assert found.read()
    assert [json.loads(b"[%s]" % block) for block in blocks] == [events]
    assert found.is_complete
    assert found.header == {"traceName": "é"}


def plain(events: list[dict[str, Any]]) -> list[Row]:
    return [(e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in events]


nested = st.recursive(
    st.one_of(st.none(), st.integers(-9, 9), st.sampled_from(NAMES)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("ph", "name", "x")), inner, max_size=3),
    ),
    max_leaves=6,
)


@st.composite
def made_event(draw: st.DrawFn) -> dict[str, Any]:
    event = made.kernel(draw(st.integers(1, 10**9)), draw(st.integers(0, 99)), 1)
    event["name"] = draw(st.sampled_from(NAMES))
    event["args"]["more"] = draw(nested)
    keys = draw(st.permutations(list(event)))
    return {key: event[key] for key in keys}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_list, "BLOCK_BYTES", 700)
    monkeypatch.setattr(event_list, "_TAIL_BYTES", 150)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    events=st.lists(made_event(), min_size=1, max_size=9),
    indent=st.sampled_from((None, 2)),
    ascii_only=st.booleans(),
    is_bare=st.booleans(),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_every_cut_leaves_the_events_of_plain_json(  # noqa: PLR0917 drawn by name
    tmp_path_factory: pytest.TempPathFactory,
    events: list[dict[str, Any]],
    indent: int | None,
    ascii_only: bool,
    is_bare: bool,
    cut: float | None,
) -> None:
    document = events if is_bare else {"a": [{"ph": 1}, {"ph": 2}], **made.document(events)}
    if not is_bare:
        document |= {"INFO": [{"name": "x"}, {"name": "]"}], "traceName": "t"}
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    content = text.encode()
    if cut is not None:
        content = content[: int(len(content) * cut)]
    rows, found, _ = read(content, tmp_path_factory.mktemp("cut") / "a.json")
    whole = plain(events)
    assert rows == whole[: len(rows)]
    assert not found.decoded.dropped
    if cut is None:
        assert rows == whole
        assert found.is_complete
        assert is_bare or found.header["traceName"] == "t"
        return
    # An event is whole as soon as its closing bracket is there.
    ends = _ends(text, events)
    assert len(rows) == sum(end <= len(content) for end in ends)


def _ends(text: str, events: list[dict[str, Any]]) -> list[int]:
    # Byte positions behind each event, by a scan that knows each event's text.
    ends, position = [], text.index('"traceEvents"') if text[0] == "{" else 0
    decoder = json.JSONDecoder()
    for event in events:
        while True:
            position = text.index("{", position)
            value, end = decoder.raw_decode(text, position)
            if value == json.loads(json.dumps(event)):
                break
            position += 1
        position = end
        ends.append(len(text[:end].encode()))
    return ends


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_damage_stays_in_its_block(tmp_path: Path) -> None:
    events = [made.kernel(i, 1, i, f"k{i}") for i in range(1, 60)]
    text = json.dumps(events)
    for bad in (7, 30, 59):
        text = text.replace(f'"name": "k{bad}",', f'"name": "k"{bad}"," \\,')
    rows, found, _ = read(text.encode(), tmp_path / "a.json")
    assert rows == [row for row in plain(events) if row[0] not in ("k7", "k30", "k59")]
    assert found.decoded.dropped == 3
    assert found.is_complete


@pytest.mark.parametrize("events", [60, 3_000])
def test_each_of_many_damaged_events_is_repaired(tmp_path: Path, events: int) -> None:
    """Frames of Windows have paths with backslashes that begin no escape."""
    made_events = [made.kernel(i, i, 1, rf"C:\Users\k{i}.py") for i in range(1, events)]
    text = json.dumps(made_events).replace("\\\\", "\\")
    rows, found, _ = read(text.encode(), tmp_path / "a.json")
    assert rows == plain(made_events)
    assert (found.decoded.repaired, found.decoded.dropped) == (events - 1, 0)


@pytest.mark.usefixtures("small_blocks")
def test_damaged_events_in_a_row_are_dropped_one_by_one(tmp_path: Path) -> None:
    events = [made.kernel(i, 1, i, f"k{i}") for i in range(1, 40)]
    text = json.dumps(events)
    for bad in range(10, 20):
        text = text.replace(f'"name": "k{bad}",', f'"name": "k"{bad}"," \\,')
    rows, found, _ = read(text.encode(), tmp_path / "a.json")
    assert rows == [row for row in plain(events) if not 10 <= int(row[0][1:]) < 20]
    assert found.decoded.dropped == 10


@pytest.mark.usefixtures("small_blocks")
def test_a_long_event_takes_several_blocks(tmp_path: Path) -> None:
    events = [made.kernel(1), made.kernel(2, name="x" * 5000), made.kernel(3)]
    rows, _, _ = read(json.dumps(made.document(events)).encode(), tmp_path / "a.json")
    assert rows == plain(events)


def test_an_end_in_the_middle_of_a_character(tmp_path: Path) -> None:
    events = [made.kernel(1), made.kernel(2, name="é")]
    content = json.dumps(made.document(events), ensure_ascii=False).encode()
    rows, found, _ = read(content[: content.index("é".encode()) + 1], tmp_path / "a.json")
    assert rows == plain(events[:1])
    assert not found.is_complete


# Real files with changes that keep their meaning, or damage one place.

SMALL = corpus_files(
    "kineto/facebook*simple_add*", "kineto/AMD*mi300__gaunernst*", "kineto/marcalph*bfeed*",
    "kineto/AdamM*",
)  # fmt: skip
NUMBERS = (
    "SELECT count(*), sum(duration_ns)::BIGINT FROM kernel UNION ALL "
    "SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM annotation UNION ALL "
    "SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM api_call UNION ALL "
    "SELECT count(*), sum(bytes)::BIGINT FROM memcpy UNION ALL "
    "SELECT count(DISTINCT process_id), sum(device_id)::BIGINT FROM kernel"
)


def unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def numbers(path: Path) -> Numbers:
    database = Database(path.with_name(f"{path.name}.duckdb"))
    (report,) = database.ingest([path])
    return sql(database, NUMBERS, [report.trace_id]).rows(), report.notes


@pytest.fixture(scope="module")
def numbers_before(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Numbers]:
    """Return what remembers the numbers of an unchanged file."""

    @cache
    def numbers_of(path: Path) -> Numbers:
        folder = tmp_path_factory.mktemp("before")
        return numbers(made.write(folder / "a.json", unpacked(path)))

    return numbers_of


def loads(content: bytes) -> Any:
    # Numbers keep their digits.
    class Digits(float):
        def __new__(cls, text: str) -> Digits:
            self = super().__new__(cls, text)
            self.text = text
            return self

        def __repr__(self) -> str:
            return self.text

    return json.loads(content, strict=False, parse_float=Digits)


def dumped(document: Any, **options: Any) -> bytes:
    # The C encoder writes floats by their value, not by their repr.
    encoder = json.JSONEncoder(**options)
    parts: Iterator[str] = json.encoder._make_iterencode(
        {}, encoder.default, json.encoder.encode_basestring_ascii, options.get("indent"),
        repr, encoder.key_separator,
        encoder.item_separator, False, False, False,
    )(document, 0)  # fmt: skip
    return "".join(parts).encode()


def reordered(document: Any) -> bytes:
    if isinstance(document, dict):
        document["traceEvents"] = [dict(reversed(e.items())) for e in document["traceEvents"]]
    return dumped(document)


def header_behind(document: Any) -> bytes:
    return dumped({"traceEvents": document.pop("traceEvents"), **document})


def ids_as_texts(document: Any) -> bytes:
    for event in document["traceEvents"]:
        args = event.get("args", {})
        for place, keys in ((event, ("pid", "tid")), (args, ("correlation", "device"))):
            for key in keys:
                if isinstance(place.get(key), int):
                    place[key] = str(place[key])
    return dumped(document)


CHANGES: dict[str, Callable[[Any], bytes]] = {
    "compact": lambda d: dumped(d, separators=(",", ":")),
    "reordered": reordered,
    "header behind": header_behind,
    "ids as texts": ids_as_texts,
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", first_of_each_format(SMALL, then_one_in=4))
def test_changes_of_form_change_no_number(
    tmp_path: Path, numbers_before: Callable[[Path], Numbers], path: Path, change: str
) -> None:
    content, wanted = unpacked(path), numbers_before(path)
    changed = CHANGES[change](loads(content))
    assert changed != content
    assert numbers(made.write(tmp_path / "b.json", changed)) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", one_in(4, range(4), then_one_in=3))
@pytest.mark.parametrize("path", first_of_each_format(SMALL, then_one_in=4))
def test_damage_is_noted_or_refused(tmp_path: Path, path: Path, seed: int) -> None:
    rng = random.Random(f"{path.name} {seed}")
    content = unpacked(path)
    flipped = bytearray(content)
    flipped[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    packed = bytearray(gzip.compress(content))
    packed[rng.randrange(20, len(packed))] ^= 0xFF
    damaged = {
        "cut.json": content[: rng.randrange(len(content))],
        "flipped.json": bytes(flipped),
        "cut.json.gz": gzip.compress(content)[: rng.randrange(20, len(packed))],
    }
    (tmp_path / "flipped.json.gz").write_bytes(packed)
    for name, data in damaged.items():
        (tmp_path / name).write_bytes(data)
    for name in (*damaged, "flipped.json.gz"):
        try:
            _, notes = numbers(tmp_path / name)
        except TbdTraceError as error:
            assert "\n" not in str(error)
            assert name in str(error)
        else:
            if name != "flipped.json":
                assert any("ends in the middle" in n or "damaged" in n for n in notes)
