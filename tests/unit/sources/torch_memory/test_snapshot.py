"""Memory snapshots of PyTorch: every layout, and every file that is none."""

from __future__ import annotations

import gzip
import itertools
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tbd_trace
from corpus import ROOT
from fast import examples, one_in
from made_memory import Ingested, block, entry, segment, snapshot, write_pickle
from make_memory_sample import main as make_sample
from tbd_trace.archive.operations import create
from tbd_trace.errors import CannotAnswerError, InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.redact.tables import Redaction
from tbd_trace.sources.torch_memory.reader import TORCH_SNAPSHOT
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_memory"


def plain(start: int = 1_000) -> dict[str, Any]:
    """Return the toy "plain" as a snapshot: two blocks of one segment, the second released."""
    history = [
        entry("segment_alloc", 4096, 2 << 20, start),
        entry("alloc", 4096, 1000, start + 1),
        entry("alloc", 5120, 600, start + 2),
        entry("free_requested", 5120, 600, start + 3),
        entry("free_completed", 5120, 600, start + 4),
    ]
    return snapshot([segment(4096, [block(1024, 1000), block((2 << 20) - 1024)])], history)


def peak(found: Ingested) -> dict[str, Any]:
    (row,) = found.ask("memory_peak").to_dicts()
    return row


def test_the_sample_is_what_its_generator_writes(tmp_path: Path) -> None:
    make_sample(["--output", str(tmp_path)])
    for path in SAMPLE.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("protocol", one_in(4, [2, 5, 3, 4], then_one_in=3))
@pytest.mark.parametrize("packed", [False, True])
def test_protocols_and_gzip(tmp_path: Path, protocol: int, packed: bool) -> None:
    path = write_pickle(tmp_path / "a.pickle", plain(), protocol)
    if packed:
        path = path.with_suffix(".gz")  # known by its content
        path.write_bytes(gzip.compress(pickle.dumps(plain(), protocol)))
    row = peak(Ingested(path))
    assert (row["peak_requested_bytes"], row["peak_sequence"], row["peak_ns"]) == (1600, 2, 2000)
    assert (row["start_requested_bytes"], row["end_requested_bytes"]) == (0, 1000)
    assert row["peak_reserved_bytes"] == row["end_reserved_bytes"] == 2 << 20


@pytest.mark.slow
def test_a_release_counts_when_it_is_complete(tmp_path: Path) -> None:
    document = plain()
    document["device_traces"][0].pop()
    document["segments"] = [
        segment(
            4096,
            [block(1024, 1000), block(1024, 600, state="active_pending_free"), block(2 << 20)],
        )
    ]
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    assert peak(found)["end_requested_bytes"] == 1600
    assert found.ask("fragmentation")["pending_bytes"].to_list() == [1024]


@pytest.mark.slow
def test_the_start_follows_from_the_end_and_the_history(tmp_path: Path) -> None:
    """The history is a ring buffer: 777 bytes are older, and so is what is released first."""
    history = [
        entry("free_completed", 9 << 20, 300, 1),
        entry("alloc", 4096, 1000, 2),
    ]
    blocks = [block(1024, 1000), block(1024, 777), block(2 << 20)]
    document = snapshot([segment(4096, blocks)], history)
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    row = peak(found)
    assert (row["start_requested_bytes"], row["end_requested_bytes"]) == (1077, 1777)
    assert (row["peak_requested_bytes"], row["unmatched_frees"]) == (1777, 1)
    breakdown = found.ask("memory_breakdown", at="peak", allow_unknown="true")
    assert breakdown["requested_bytes"].sum() == 1777
    assert any("before the recording: 1" in note for note in found.notes)


@pytest.mark.slow
def test_the_peak_may_be_before_the_history(tmp_path: Path) -> None:
    history = [entry("free_completed", 4096, 1000, 1), entry("alloc", 4096, 500, 2)]
    document = snapshot([segment(4096, [block(512, 500)])], history)
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    row = peak(found)
    assert (row["peak_requested_bytes"], row["peak_sequence"], row["peak_ns"]) == (1000, None, None)
    tensors = found.ask("memory_at_peak")
    assert tensors["requested_bytes"].to_list() == [1000]


@pytest.mark.slow
def test_an_allocation_at_a_live_address_ends_the_earlier(tmp_path: Path) -> None:
    history = [entry("alloc", 4096, 1000, 1), entry("alloc", 4096, 400, 2)]
    document = snapshot([segment(4096, [block(512, 400)])], history)
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    assert peak(found)["peak_requested_bytes"] == 1000
    assert peak(found)["end_requested_bytes"] == 400
    assert any("an address that was still in use: 1;" in note for note in found.notes)


@pytest.mark.slow
def test_one_address_may_be_older_twice(tmp_path: Path) -> None:
    """A history with a hole: the block was released, and the next allocation is missing."""
    history = [entry("free_completed", 4096, 1000, 1), entry("alloc", 8192, 16, 2)]
    document = snapshot([segment(4096, [block(4096, 400), block(512, 16)])], history)
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    rows = found.ask("memory_timeline").select("requested_bytes", "total_bytes").rows()
    assert [total for _, total in rows] == [400, 416]
    breakdown = found.ask("memory_breakdown", at="end", allow_unknown="true")
    assert breakdown["allocations"].sum() == 2


@pytest.mark.slow
def test_a_snapshot_without_history(tmp_path: Path) -> None:
    document = plain()
    document["device_traces"] = [[]]
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    assert found.ask("fragmentation")["rounding_bytes"].to_list() == [24]
    assert any("no history of allocations" in note for note in found.notes)
    for query in (
        "memory_peak",
        "memory_timeline",
        "memory_at_peak",
        "memory_breakdown",
        "memory_leak",
    ):
        with pytest.raises(CannotAnswerError, match="_record_memory_history"):
            found.ask(query)


@pytest.mark.slow
def test_without_times_the_order_of_the_file_counts(tmp_path: Path) -> None:
    document = plain()
    for event in document["device_traces"][0]:
        del event["time_us"]
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    row = peak(found)
    assert (row["peak_requested_bytes"], row["peak_sequence"], row["peak_ns"]) == (1600, 2, None)
    assert any("no times" in note for note in found.notes)


@pytest.mark.slow
def test_a_peak_above_the_segments_is_no_peak_of_the_segments(tmp_path: Path) -> None:
    """As in files whose history lacks the events of segments that are gone."""
    history = [entry("alloc", 4096, 4 << 20, 1), entry("free_completed", 4096, 4 << 20, 2)]
    document = snapshot([segment(1 << 40, [block(2 << 20)])], history)
    row = peak(Ingested(write_pickle(tmp_path / "a.pickle", document)))
    assert row["peak_requested_bytes"] == 4 << 20
    assert row["peak_reserved_bytes"] is None
    assert row["end_reserved_bytes"] == 2 << 20
    assert "their events are missing" in row["reason"]


@pytest.mark.slow
def test_expandable_segments_hold_what_is_mapped(tmp_path: Path) -> None:
    size = 2 << 20
    history = [
        entry("segment_map", 4096, size, 1),
        entry("segment_map", 4096 + size, size, 2),
        entry("alloc", 4096, 100, 3),
        entry("segment_unmap", 4096 + size, size, 4),
    ]
    document = snapshot(
        [segment(4096, [block(512, 100), block(size - 512)], is_expandable=True)], history
    )
    row = peak(Ingested(write_pickle(tmp_path / "a.pickle", document)))
    assert (row["peak_reserved_bytes"], row["end_reserved_bytes"]) == (2 * size, size)


@pytest.mark.slow
def test_other_events_change_nothing(tmp_path: Path) -> None:
    document = plain()
    others = [entry("snapshot", 0, 0, 9), entry("oom", 1 << 33, 99, 10), entry("what", 1, 1, 11)]
    document["device_traces"][0] += others
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    assert peak(found)["peak_requested_bytes"] == 1600
    assert any("unknown action: 1" in note for note in found.notes)


def test_the_list_of_segments_of_old_releases(tmp_path: Path) -> None:
    """Blocks have neither addresses nor requested sizes, but a history of their allocation."""
    frames = [{"name": "f", "filename": "a.py", "line": 3}]
    blocks = [
        {"size": 1024, "state": "active_allocated",
         "history": [{"addr": 4096, "real_size": 1000, "frames": frames}]},
        {"size": 512, "state": "active_awaiting_free", "history": []},
        {"size": 512, "state": "inactive"},
    ]  # fmt: skip
    old = {"device": 0, "address": 4096, "total_size": 2048, "stream": 0, "blocks": blocks}
    found = Ingested(write_pickle(tmp_path / "a.pickle", [old]))
    (row,) = found.ask("fragmentation").to_dicts()
    assert (row["requested_bytes"], row["rounding_bytes"], row["pending_bytes"]) == (1000, 24, 512)
    with TORCH_SNAPSHOT.open(tmp_path / "a.pickle") as reader, duckdb.connect() as connection:
        select = reader.relation(connection, "memory_block")
        rows = connection.sql(f"SELECT address, requested_bytes, state FROM ({select})").fetchall()
    assert rows == [
        (4096, 1000, "active_allocated"),
        (5120, None, "active_pending_free"),
        (5632, 0, "inactive"),
    ]


@pytest.mark.slow
def test_addresses_of_blocks_tile_the_segment(tmp_path: Path) -> None:
    document = plain()
    for part in document["segments"][0]["blocks"]:
        del part["address"]
    assert peak(Ingested(write_pickle(tmp_path / "a.pickle", document)))["allocations"] == 2


# devices and streams


def two_devices(devices: tuple[int, int], streams: tuple[int, int]) -> dict[str, Any]:
    """Return two devices with two streams; device `devices[0]` holds more."""
    histories: list[list[dict[str, Any]]] = [[] for _ in range(max(devices) + 1)]
    segments = []
    for scale, device in zip((3, 1), devices, strict=True):
        for at, stream in zip((1 << 30, 1 << 31), streams, strict=True):
            size = scale * 100
            histories[device] += [
                entry("segment_alloc", at, 2048, 1, stream=stream),
                entry("alloc", at, size, 2, stream=stream),
                entry("alloc", at + 1024, size + 1, 3, stream=stream),
                entry("free_completed", at + 1024, size + 1, 4, stream=stream),
            ]
            blocks = [block(1024, size), block(1024)]
            segments.append(segment(at, blocks, device=device, stream=stream))
    return snapshot(segments, *histories)


@pytest.mark.slow
def test_devices_and_streams_are_never_summed(tmp_path: Path) -> None:
    found = Ingested(write_pickle(tmp_path / "a.pickle", two_devices((0, 1), (0, 7))))
    columns = ("device_id", "peak_requested_bytes", "end_requested_bytes", "peak_reserved_bytes")
    assert found.ask("memory_peak").select(columns).rows() == [
        (0, 901, 600, 4096),
        (1, 301, 200, 4096),
    ]
    pools = found.ask("fragmentation", by="pool")
    assert pools.select("device_id", "stream_id", "requested_bytes").rows() == [
        (0, 0, 300), (0, 7, 300), (1, 0, 100), (1, 7, 100),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "streams"), [((1, 0), (0, 7)), ((0, 3), (7, 0))])
def test_ids_of_devices_and_streams_mean_nothing(
    tmp_path: Path, devices: tuple[int, int], streams: tuple[int, int]
) -> None:
    def answers(name: str, d: tuple[int, int], s: tuple[int, int]) -> list[Any]:
        (tmp_path / name).mkdir()
        made = Ingested(write_pickle(tmp_path / name / "a.pickle", two_devices(d, s)))
        said = []
        with SharedSession(made.database, made.database.trace_ids()) as session:
            for query, parameters in (
                ("memory_peak", {}),
                ("memory_breakdown", {"allow_unknown": "true"}),
                ("memory_timeline", {}),
                ("memory_at_peak", {}),
                ("fragmentation", {}),
            ):
                frame = session.run(Catalogue().get(query), parameters).frame
                rows = frame.drop("trace_id").to_dicts()
                said += [(query, [r | {"device_id": d.index(r["device_id"])} for r in rows])]
        return [(query, sorted(map(str, rows))) for query, rows in said]

    assert answers("usual", (0, 1), (0, 7)) == answers("other", devices, streams)


@pytest.mark.slow
def test_inference_has_no_rows_of_gradients(tmp_path: Path) -> None:
    frames = [
        {"name": "at::_ops::linear::call", "filename": "??", "line": 0},
        {"name": "forward", "filename": "torch/nn/modules/linear.py", "line": 114},
    ]
    history = [
        entry("alloc", 4096, 1000, 1, frames=frames),
        entry("alloc", 5120, 600, 2, frames=frames),
        entry("free_completed", 5120, 600, 3, frames=frames),
    ]
    document = snapshot([segment(4096, [block(1024, 1000, frames=frames)])], history)
    found = Ingested(write_pickle(tmp_path / "a.pickle", document))
    for at in ("peak", "end", "step"):
        frame = found.ask("memory_breakdown", at=at)
        assert not set(frame["class"]) & {"weight_gradient", "optimizer_state"}
    assert found.ask("memory_by_layer")["layer"].to_list() == ["linear.forward"]


# files that are no snapshots


class Hostile:
    """An object whose pickle runs a command when it is loaded."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        import os

        return os.system, (f"touch {self._target}",)


def hostile(document: Callable[[Hostile], Any]) -> Callable[[Path], bytes]:
    return lambda folder: pickle.dumps(document(Hostile(folder / "made_by_pickle")))


BAD: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "reduce": (hostile(lambda h: h), "asks to run posix.system"),
    "reduce in a snapshot": (
        hostile(lambda h: snapshot([segment(4096, [block(512, 8, frames=[h])])])),
        "asks to run posix.system",
    ),
    "global alone": (lambda _: b"cposix\nsystem\n.", "asks to run posix.system"),
    "module with code": (lambda _: b"\x80\x02cimported_by_pickle\nx\n.", "imported_by_pickle.x"),
    "harmless class": (lambda _: pickle.dumps(OrderedDict(a=1)), "collections.OrderedDict"),
    "extension code": (lambda _: b"\x80\x02\x82\x01.", ""),
    "persistent id": (lambda _: b"\x80\x02U\x01aQ.", "a persistent object"),
    "persistent text id": (lambda _: b"\x80\x02Pa\n.", "a persistent object"),
    "truncated": (lambda _: pickle.dumps(plain())[:200], "not a complete pickle"),
    "text": (lambda _: b"hello world\n", "not a complete pickle"),
    "empty": (lambda _: b"", ""),
    "other dict": (lambda _: pickle.dumps({"a": 1}), "without `segments`"),
    "number": (lambda _: pickle.dumps(7), "a pickle of int"),
    "list of numbers": (lambda _: pickle.dumps([1, 2]), "not a list of dicts"),
    "list of dicts": (lambda _: pickle.dumps([{"a": 1}]), "no `total_size`"),
    "segments no list": (lambda _: pickle.dumps({"segments": 3}), "not a list of dicts"),
    "history no list": (
        lambda _: pickle.dumps({"segments": [], "device_traces": 3}),
        "`device_traces` are not a list",
    ),
    "history of numbers": (
        lambda _: pickle.dumps({"segments": [], "device_traces": [[1]]}),
        "not a list of dicts",
    ),
    "memo bomb": (
        lambda _: b"\x80\x04]\x94" + 100 * b"(h\x00h\x00h\x00h\x00e" + b".",
        "not a list of dicts",
    ),
    "damaged gzip": (lambda _: gzip.compress(pickle.dumps(plain()))[:150] + b"xx", ""),
    "gzip of another file": (lambda _: gzip.compress(b"hello world"), ""),
    "huge length": (lambda _: b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", "not a complete pickle"),
}


@pytest.mark.parametrize("name", BAD)
def test_other_files_are_explained_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content, words = BAD[name]
    (tmp_path / "imported_by_pickle.py").write_text("open('made_by_import', 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "a.pickle"
    path.write_bytes(content(tmp_path))
    with pytest.raises(InputError) as raised:
        Ingested(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert "\n" not in message
    if "asks to run" in message:
        assert message.endswith("Nothing was run")
    assert "imported_by_pickle" not in sys.modules
    made = {file.name for file in tmp_path.iterdir()}
    assert not {n for n in made if n.startswith("made_by")}


def read_all(path: Path) -> None:
    """Read all tables of a file; only `InputError` may be raised."""
    try:
        with TORCH_SNAPSHOT.open(path) as reader, duckdb.connect() as connection:
            for table in canonical_tables():
                select = reader.relation(connection, table)
                if select is not None:
                    connection.execute(select).fetchall()
            reader.describe()
    except InputError as error:
        assert "\n" not in str(error)


OUR_FOLDER = settings(
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=100).map(lambda rest: b"\x80\x04" + rest),
        st.binary(max_size=100).map(lambda rest: b"\x1f\x8b\x08" + rest),
    )
)
@OUR_FOLDER
def test_random_bytes_are_no_traceback(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "random.pickle"
    path.write_bytes(content)
    read_all(path)


@pytest.mark.slow
@given(at=st.integers(0, len(pickle.dumps(plain())) - 1), value=st.integers(0, 255))
@OUR_FOLDER
def test_a_changed_byte_is_no_traceback(tmp_path: Path, at: int, value: int) -> None:
    content = bytearray(pickle.dumps(plain()))
    content[at] = value
    path = tmp_path / "changed.pickle"
    path.write_bytes(content)
    read_all(path)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3),
    st.lists(st.integers(0, 2), max_size=2), st.dictionaries(st.text(max_size=2), st.none()),
)  # fmt: skip
PLACES = list(
    itertools.chain(
        (("segments", 0, key) for key in plain()["segments"][0]),
        (("segments", 0, "blocks", 0, key) for key in plain()["segments"][0]["blocks"][0]),
        (("device_traces", 0, 1, key) for key in plain()["device_traces"][0][1]),
        ((key,) for key in ("segments", "device_traces", "external_annotations")),
    )
)


@pytest.mark.slow
@given(place=st.sampled_from(PLACES), value=VALUES)
@OUR_FOLDER
def test_values_of_other_types_are_no_traceback(
    tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    document = plain()
    *way, last = place
    target: Any = document
    for key in way:
        target = target[key]
    target[last] = value
    read_all(write_pickle(tmp_path / "typed.pickle", document))


@pytest.mark.slow
def test_an_archive_gives_the_same_classes(tmp_path: Path) -> None:
    """Paths of frames are redacted, the modules that classes are inferred from are not."""
    database = Database(tmp_path / "x.duckdb")
    database.ingest([SAMPLE / "snapshot.pickle"])
    create(database, database.trace_ids(), tmp_path / "x.tbdtrace", redaction=Redaction())
    archived = tbd_trace.open(tmp_path / "x.tbdtrace")
    expected = tbd_trace.open(db=tmp_path / "x.duckdb").query("memory_breakdown")
    assert archived.query("memory_breakdown").rows() == expected.rows()
    frames = archived.sql("SELECT DISTINCT file, module FROM memory_stack")
    assert "torch.optim.optimizer" in frames["module"].to_list()
    assert not frames["file"].str.contains("site-packages").any()
