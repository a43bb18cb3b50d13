"""Archives answer as the database did; what is wrong with one is said, and nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner, Result

import tbd_trace
from all_answers import answers
from corpus import ROOT
from fast import one_in
from query_files import METRIC_NAMES
from tbd_trace.api import Traces, open_archive, open_traces
from tbd_trace.archive import remote_files
from tbd_trace.archive import store as archive_store
from tbd_trace.archive.manifest import FILE, Manifest, is_safe
from tbd_trace.archive.operations import create
from tbd_trace.archive.verify import problems
from tbd_trace.cli.main import app
from tbd_trace.errors import CannotAnswerError, StoreError, UsageError
from tbd_trace.present import Format, render
from tbd_trace.query import Result as QueryResult
from tbd_trace.redact.tables import Redaction, parse_keep
from tbd_trace.store import Database
from web import serving, silent

pytestmark = pytest.mark.slow

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
EVERYTHING = parse_keep(["all"])
BATCHES_PER_S = 10e9 / (38_289_500 - 12_727_000)
"""Of the sample: from the start of `iteration 2` to the end of `iteration 11`, the last one.

The first two are warm-up. Between two ranges lie 37.5 µs of about 2560: the last one counts.
"""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("cache")
        patch.setenv("TBD_TRACE_CACHE", str(place))
        yield place


@pytest.fixture
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def archived(sample_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with one archive in both forms, made without taking anything out."""
    place = tmp_path_factory.mktemp("archived")
    for name in ("sample", "sample.tbd.zip"):
        ids = sample_database.trace_ids()
        create(sample_database, ids, place / name, redaction=EVERYTHING)
    return place


@pytest.fixture(params=["sample", "sample.tbd.zip"])
def copy(request: pytest.FixtureRequest, archived: Path, tmp_path: Path) -> Path:
    """Return a copy of the archive, in each form, that a test may damage."""
    source, target = archived / request.param, tmp_path / request.param
    shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
    return target


def answer(traces: Traces, name: str) -> bytes:
    """Return what a query answers, as CSV, or why it does not."""
    try:
        return as_bytes(traces.run(name))
    except CannotAnswerError as error:
        return as_bytes(error)


def as_bytes(found: QueryResult | CannotAnswerError) -> bytes:
    if isinstance(found, CannotAnswerError):
        return str(found).encode()
    return render(found.frame, Format.CSV)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def failing(*words: str | Path, code: int = 1) -> str:
    """Run a command that must fail with one line; return the line."""
    done = run(*words)
    assert done.exit_code == code, done.output
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert line.startswith("error: ")
    assert not done.stdout
    return line


Answers = dict[str, QueryResult | CannotAnswerError]


@pytest.fixture(scope="module")
def all_three(
    request: pytest.FixtureRequest, sample_database: Database, archived: Path
) -> list[Answers]:
    """Return the answers of the database and of both forms of the archive.

    Only those that tests of this run ask for.
    """
    running = {item.name for item in request.session.items}
    test = test_every_query_is_answered_as_by_the_database.__name__
    names = [name for name in METRIC_NAMES if f"{test}[{name}]" in running]
    forms = (open_archive(str(archived / form)) for form in ("sample", "sample.tbd.zip"))
    return [answers(one, names) for one in (sample_database, *forms)]


@pytest.mark.parametrize("name", one_in(9, METRIC_NAMES, then_one_in=3))
def test_every_query_is_answered_as_by_the_database(all_three: list[Answers], name: str) -> None:
    expected, *archived = (as_bytes(found[name]) for found in all_three)
    assert archived == [expected] * 2


def test_sql_and_connections_read_archives(sample_database: Database, archived: Path) -> None:
    statement = "SELECT count(*) AS n, sum(end_ns - start_ns) AS ns FROM kernel"
    (expected,) = Traces(sample_database, sample_database.trace_ids()).sql(statement).rows()
    opened = tbd_trace.open(archived / "sample.tbd.zip")
    assert opened.sql(statement).rows() == [expected]
    with opened.connect("op_scope") as connection:
        assert connection.execute(statement).fetchone() == expected
        assert connection.execute("SELECT count(*) > 0 FROM op_scope").fetchone() == (True,)
    tables = opened.sql("SHOW TABLES")["name"].to_list()
    assert {"kernel", "gpu_sample"} <= set(tables)


def test_the_command_line_reads_archives(archived: Path) -> None:
    for words in (
        ["query", "throughput", archived / "sample", "--format", "csv"],
        ["query", "throughput", "--db", archived / "sample.tbd.zip", "--format", "csv"],
        ["sql", "SELECT samples_per_s FROM (SELECT 12518.3 AS samples_per_s) WHERE EXISTS "
         "(FROM kernel)", "--trace", archived / "sample.tbd.zip", "--format", "csv"],
        ["info", "--db", archived / "sample", "synthetic_cnn/timeline.sqlite", "--format", "json"],
    ):  # fmt: skip
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert "12518.3" in done.stdout or "synthetic" in done.stdout


def test_reading_writes_nothing(archived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> list[tuple[str, int, int]]:
        files = sorted(path for path in archived.rglob("*"))
        return [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files]

    before = state()
    for form in ("sample", "sample.tbd.zip"):
        tbd_trace.open(archived / form).query("layer_time")
        assert not list(problems(open_archive(str(archived / form))))
    assert state() == before


def test_a_cache_that_cannot_be_written_is_done_without(
    archived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TBD_TRACE_CACHE", str(tmp_path / "file" / "cache"))
    assert tbd_trace.open(archived / "sample.tbd.zip").query("throughput").height == 1


def test_the_same_traces_give_the_same_files(
    sample_database: Database, archived: Path, tmp_path: Path
) -> None:
    create(sample_database, sample_database.trace_ids(), tmp_path / "again", redaction=EVERYTHING)
    assert contents(tmp_path / "again") == contents(archived / "sample")


def contents(directory: Path) -> dict[str, str]:
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in directory.rglob("*")
        if file.is_file() and file.name != FILE
    }


def test_tables_are_sorted_and_packed_with_zstd(archived: Path) -> None:
    (kernel,) = (
        file
        for file in (archived / "sample" / "traces").glob("*/kernel.parquet")
        if "timeline" in str(pl.read_parquet(file.with_name("trace.parquet"))["kind"][0])
    )
    starts = pl.read_parquet(kernel)["start_ns"]
    assert starts.is_sorted() and starts.len() > 100
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT DISTINCT compression FROM parquet_metadata('{kernel}')")
        assert found.fetchall() == [("ZSTD",)]


def test_capture_and_layers_are_beside_the_tables(archived: Path) -> None:
    directory = archived / "sample" / "captures" / "synthetic-cnn"
    capture = json.loads((directory / "capture.json").read_text())
    original = json.loads((SAMPLE / "capture.json").read_text())
    assert {"model", "framework", "batch_size"} <= capture.keys()
    assert all(capture[key] == original[key] for key in ("model", "framework", "batch_size"))
    layers = json.loads((directory / "layers.json").read_text())["layers"]
    theirs = json.loads((SAMPLE / "layers.json").read_text())["layers"]
    assert [layer["name"] for layer in layers] == [layer["name"] for layer in theirs]
    assert [layer["forward_flop"] for layer in layers] == [x["forward_flop"] for x in theirs]
    assert not {"trace_id", "position", "layer", "layer_type"} & layers[0].keys()
    assert None not in layers[0].values()


def flipped(file: Path, place: int, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1 << bit
    file.write_bytes(content)


def wrong(location: Path) -> list[str]:
    try:
        return list(problems(open_archive(str(location))))
    except (StoreError, UsageError) as error:
        return [str(error)]


@pytest.mark.parametrize("name", ["small", "small.zip"])
def test_one_flipped_bit_anywhere_is_found(
    sample_database: Database, tmp_path: Path, name: str
) -> None:
    ids = sample_database.resolve(["synthetic_cnn/metrics.csv"])
    copy = tmp_path / name
    create(sample_database, ids, copy, redaction=EVERYTHING)
    assert not wrong(copy)
    dice = random.Random(1)
    for file in [f for f in copy.rglob("*") if f.is_file()] if copy.is_dir() else [copy]:
        whole = file.read_bytes()
        ends = [*range(0, 40, 13), *range(max(len(whole) - 160, 0), len(whole), 31)]
        for place in {*ends, *(dice.randrange(len(whole)) for _ in range(5))}:
            flipped(file, place, dice.randrange(8))
            named = file.relative_to(copy).as_posix() if copy.is_dir() else str(copy)
            assert named in wrong(copy)[0]
            file.write_bytes(whole)


def test_every_bit_of_the_manifest_counts(archived: Path) -> None:
    content = (archived / "sample" / FILE).read_bytes()
    dice = random.Random(2)
    assert Manifest.from_bytes(content, "archive").to_bytes() == content
    for place in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[place] ^= 1 << dice.randrange(7)
        with pytest.raises(StoreError, match="archive"):
            Manifest.from_bytes(bytes(damaged), "archive")


def test_two_threads_copy_a_table_at_once(
    archived: Path, cache_of_its_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=20)
    chunks = archive_store.verified_chunks

    def chunks_of_both(*given: Any) -> Iterator[bytes]:
        yield from chunks(*given)
        both.wait()

    monkeypatch.setattr(archive_store, "verified_chunks", chunks_of_both)
    archives = [open_archive(str(archived / "sample.tbd.zip")) for _ in range(2)]
    with ThreadPoolExecutor(2) as executor:
        first, second = executor.map(lambda one: one.files("kernel", one.trace_ids()), archives)
    assert first == second
    assert sorted(cache_of_its_own.rglob("*kernel.parquet*")) == sorted(first)


def test_a_query_names_a_changed_table(copy: Path, tmp_path: Path, cache_of_its_own: Path) -> None:
    if copy.is_dir():
        for table in copy.glob("traces/*/kernel.parquet"):
            flipped(table, 100, 3)
    else:
        _repacked(
            copy, lambda name, data: b"PAR1" + data[4:-1] + b"x" if "kernel.p" in name else data
        )
    line = failing("query", "kernel_summary", copy)
    assert "kernel.parquet was changed or damaged" in line
    line = failing("archive", "extract", copy, "-o", tmp_path / "out")
    assert "was changed or damaged" in line
    assert not (tmp_path / "out").exists()


def _repacked(path: Path, change: Callable[[str, bytes], bytes | None], extra: str = "") -> None:
    """Pack a zip file again with members changed, left out where None, and one more."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            if (new := change(name, data)) is not None:
                archive.writestr(name, new)
        if extra:
            archive.writestr(extra, b"#!/bin/sh\n")


def test_a_repacked_archive_is_sound_as_long_as_its_files_are(copy: Path) -> None:
    if copy.is_dir():
        shutil.make_archive(str(copy), "zip", copy)
        copy = copy.with_suffix(".zip")
    else:
        _repacked(copy, lambda _name, data: data)
    assert not wrong(copy)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "C:\\evil", "a\\..\\b"])
def test_members_that_lead_outside_are_refused(archived: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copy(archived / "sample.tbd.zip", tmp_path / "x.zip"))
    _repacked(copy, lambda _name, data: data, extra=name)
    for words in (["query", "throughput", copy], ["archive", "verify", copy],
                  ["archive", "extract", copy, "-o", tmp_path / "out"]):  # fmt: skip
        assert "do not trust it" in failing(*words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.zip"]


def test_a_file_that_was_added_is_found(copy: Path) -> None:
    if copy.is_dir():
        (copy / "captures" / "extra.txt").write_text("x")
    else:
        _repacked(copy, lambda _name, data: data, extra="captures/extra.txt")
    assert any("captures/extra.txt is not listed" in problem for problem in wrong(copy))


def test_a_member_that_unpacks_to_more_than_listed_is_not_unpacked(
    archived: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copy(archived / "sample.tbd.zip", tmp_path / "bomb.zip"))
    with zipfile.ZipFile(copy) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    bomb = next(name for name in members if name.endswith("kernel.parquet"))
    members[bomb] += bytes(300_000_000)
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    written: list[int] = []
    listed = {file.path: file for file in open_archive(str(copy)).manifest.files}[bomb]
    with pytest.raises(StoreError, match="changed or damaged"):
        from tbd_trace.archive.store import verified_chunks

        for chunk in verified_chunks(open_archive(str(copy)).backend, listed):
            written.append(len(chunk))
    assert sum(written) <= listed.size_bytes
    assert "changed or damaged" in failing("archive", "extract", copy, "-o", tmp_path / "out")


# Of the first kind the comment at the end has lost some of its 71 bytes.
@pytest.mark.parametrize("left", [-1, -60, -71, -72, -93, -200, 0.9, 0.3, 0.0])
def test_half_a_download_is_reported(archived: Path, tmp_path: Path, left: float) -> None:
    content = (archived / "sample.tbd.zip").read_bytes()
    copy = tmp_path / "half.tbd.zip"
    copy.write_bytes(content[: int(left if left < 0 else left * len(content))])
    assert "get the archive again" in failing("query", "throughput", copy)


def test_a_missing_file_is_named(archived: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(archived / "sample", copy)
    missing = next(copy.glob("traces/*/kernel.parquet"))
    missing.unlink()
    line = failing("query", "kernel_summary", copy)
    assert f"{missing.relative_to(copy)} is missing" in line


def changed_manifest(directory: Path, **fields: object) -> None:
    """Change archive.json as one who knows how would: with a right checksum."""
    from tbd_trace.archive.manifest import _sealed

    document = json.loads((directory / FILE).read_text()) | fields
    (directory / FILE).write_bytes(_sealed(document))


def test_a_newer_archive_is_reported(archived: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archived / "sample", tmp_path / "copy"))
    changed_manifest(copy, format_version=2)
    assert "upgrade tbd-trace" in failing("query", "throughput", copy)
    changed_manifest(copy, format_version=1, layout="v9")
    assert "use the version that made it" in failing("query", "throughput", copy)
    changed_manifest(copy, layout="v2", format="something else")
    assert "not of a trace archive" in failing("query", "throughput", copy)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "traces//x", ""])
def test_a_manifest_that_names_files_outside_is_refused(
    archived: Path, tmp_path: Path, path: str
) -> None:
    copy = Path(shutil.copytree(archived / "sample", tmp_path / "copy"))
    files = json.loads((copy / FILE).read_text())["files"]
    files[0]["path"] = path
    changed_manifest(copy, files=files)
    assert "do not trust it" in failing("archive", "verify", copy)


def test_a_manifest_that_lists_a_file_twice_is_refused(archived: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archived / "sample", tmp_path / "copy"))
    files = json.loads((copy / FILE).read_text())["files"]
    changed_manifest(copy, files=[*files, files[-1]])
    said = failing("archive", "verify", copy)
    assert f"lists {files[-1]['path']!r} twice; do not trust it" in said


def test_a_link_out_of_an_archive_is_refused(archived: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archived / "sample", tmp_path / "copy"))
    table = next(copy.glob("traces/*/kernel.parquet"))
    shutil.move(table, tmp_path / "kernel.parquet")
    table.symlink_to(tmp_path / "kernel.parquet")
    assert "link out of the archive" in failing("query", "kernel_summary", copy)


@pytest.mark.parametrize("mode", [0, stat.S_IFREG, stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_a_zip_file_has_the_listed_files_alone(archived: Path, tmp_path: Path, mode: int) -> None:
    copy = Path(shutil.copy(archived / "sample.tbd.zip", tmp_path / "copy.zip"))
    with zipfile.ZipFile(copy, "a") as archive:
        member = zipfile.ZipInfo("traces/more")
        member.create_system, member.external_attr = 3, (mode | 0o644) << 16
        archive.writestr(member, "/etc/passwd")
    for words in (["archive", "extract", copy, "-o", tmp_path / "out"], ["query", "mfu", copy]):
        line = failing(*words)
        assert "traces/more" in line
        assert "do not trust it" in line
    assert not (tmp_path / "out").exists()


def test_a_second_manifest_is_refused(archived: Path, tmp_path: Path) -> None:
    """Programs that unpack zip files differ in which of two members they take."""
    copy = Path(shutil.copy(archived / "sample.tbd.zip", tmp_path / "copy.zip"))
    with zipfile.ZipFile(copy, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("archive.json", "{}")
    for words in (["query", "mfu", copy], ["archive", "extract", copy, "-o", tmp_path / "out"]):
        assert "two members with the same name; do not trust it" in failing(*words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["", "../x", "/tmp/x", "a\\..\\x"])
def test_names_of_members_that_are_not_safe(archived: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copy(archived / "sample.tbd.zip", tmp_path / "copy.zip"))
    with zipfile.ZipFile(copy, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), "x")
    assert f"has a member {name!r}; do not trust it" in failing("query", "mfu", copy)


def test_a_table_without_a_column_is_reported(archived: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(archived / "sample", tmp_path / "copy"))
    files = json.loads((copy / FILE).read_text())["files"]
    for listed in files:
        if listed["path"].endswith("/kernel.parquet"):
            table = copy / listed["path"]
            pl.read_parquet(table).drop("start_ns").write_parquet(table)
            listed["size_bytes"] = table.stat().st_size
            listed["sha256"] = hashlib.sha256(table.read_bytes()).hexdigest()
    changed_manifest(copy, files=files)
    line = failing("query", "kernel_summary", copy)
    assert "kernel has no column start_ns of type BIGINT" in line


@pytest.mark.parametrize("others", [None, 0, 2])
def test_verify_counts_the_rows_of_each_trace(
    archived: Path, tmp_path: Path, others: int | None
) -> None:
    """Tables with a right checksum: one row less, all rows, or two rows of another trace."""
    copy = Path(shutil.copytree(archived / "sample", tmp_path / "copy"))
    files = json.loads((copy / FILE).read_text())["files"]
    kernels = [file for file in files if file["path"].endswith("/kernel.parquet")]
    listed = max(kernels, key=lambda file: file["rows"])
    table = copy / listed["path"]
    rows = pl.read_parquet(table)
    if others is None:
        rows = rows[1:]
    else:
        is_other = pl.int_range(pl.len()) < others
        changed = pl.when(is_other).then(pl.lit("0" * 12)).otherwise("trace_id")
        rows = rows.with_columns(trace_id=changed)
    rows.write_parquet(table)
    listed["size_bytes"] = table.stat().st_size
    listed["sha256"] = hashlib.sha256(table.read_bytes()).hexdigest()
    changed_manifest(copy, files=files)
    found = wrong(copy)
    if others == 0:
        assert found == []
        return
    (line,) = found
    wanted = f"has {len(rows)} rows, {others or 0} of them of other traces, in place of "
    assert f"{listed['path']} {wanted}{listed['rows']};" in line


@pytest.mark.parametrize("missing", ["captures", "traces", "files", "layout", "sha256"])
def test_an_incomplete_manifest_is_refused(archived: Path, tmp_path: Path, missing: str) -> None:
    from tbd_trace.archive.manifest import _sealed

    document = json.loads((archived / "sample" / FILE).read_text())
    if missing == "sha256":
        del document["files"][0]["sha256"]
    else:
        del document[missing]
    with pytest.raises(StoreError, match=rf"^x: archive.json is incomplete \(.*{missing}.*\); "):
        Manifest.from_bytes(_sealed(document), "x")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"format": 1}', b"[" * 9999]
)
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(StoreError, match="the archive: "):
        Manifest.from_bytes(content, "the archive")


def test_paths_that_are_safe() -> None:
    for path in ("a", "a/b.c", "captures/x (1), é/layers.json", "..a", "a..b/c"):
        assert is_safe(path)
    for path in ("", "/a", "a/", "a//b", ".", "..", "a/..", "a\\b", "c:/a", "a\nb", "a\0", None):
        assert not is_safe(path)


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("x")
    for force in ([], ["--force"]):
        line = failing("archive", "create", SAMPLE, "-o", tmp_path / "notes", *force, code=2)
        assert "choose another name" in line
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["mine.txt"]


def test_force_replaces_an_archive(copy: Path) -> None:
    assert "exists" in failing("archive", "create", SAMPLE, "-o", copy, code=2)
    if copy.is_dir():
        flipped(copy / FILE, 10, 1)
    done = run("archive", "create", SAMPLE, "-o", copy, "--force")
    assert done.exit_code == 0, done.output
    assert not wrong(copy)
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_nothing_is_left_of_an_archive_that_failed(
    sample_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tbd_trace.archive.archive_writer.ArchiveWriter.finish", full)
    with pytest.raises(StoreError, match=r"x\.zip: cannot be written \(No space left"):
        ids = sample_database.trace_ids()
        create(sample_database, ids, tmp_path / "x.zip", redaction=Redaction())
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = failing("archive", "create", SAMPLE, "-o", tmp_path / "file" / "archive")
    assert "cannot be written" in line


def capture(directory: Path, **fields: object) -> Path:
    """Return a copy of the sample capture with another capture.json."""
    shutil.copytree(SAMPLE, directory)
    document = json.loads((directory / "capture.json").read_text()) | fields
    (directory / "capture.json").write_text(json.dumps(document))
    return directory


def test_two_captures_of_one_id_are_reported(tmp_path: Path, archived: Path) -> None:
    other = capture(tmp_path / "other", batch_size=64)
    line = failing("archive", "create", SAMPLE, other, "-o", tmp_path / "out", code=2)
    assert "two captures have the capture_id 'synthetic-cnn'" in line
    done = run("archive", "create", other, "--keep", "all", "-o", tmp_path / "o.zip")
    assert done.exit_code == 0, done.output
    words = ["archive", "merge", archived / "sample", tmp_path / "o.zip", "-o", tmp_path / "m"]
    assert "captures/synthetic-cnn/capture.json differs" in failing(*words, code=2)
    assert not (tmp_path / "m").exists() and not (tmp_path / "out").exists()


def test_private_names_are_nowhere_in_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/gwendolyn")
    monkeypatch.setenv("USER", "gwendolyn")
    own = capture(
        tmp_path / "gwendolyn-run", capture_id="run of gwendolyn", dataset="/home/gwendolyn/data"
    )
    for name, words in (("bare", []), ("whole", ["--keep", "all"])):
        done = run("archive", "create", own, "-o", tmp_path / name, *words)
        assert done.exit_code == 0, done.output
        found = [
            path
            for path in [tmp_path / name, *(tmp_path / name).rglob("*")]
            if "gwendolyn" in path.name
            or (path.suffix == ".json" and "gwendolyn" in path.read_text())
            or (path.suffix == ".parquet" and "gwendolyn" in str(pl.read_parquet(path).rows()))
        ]
        assert bool(found) == (name == "whole"), found
    assert "user1" in (tmp_path / "bare" / FILE).read_text()
    opened = tbd_trace.open(tmp_path / "bare")
    assert opened.query("throughput")["samples_per_s"].to_list() == [
        pytest.approx(32 * BATCHES_PER_S)
    ]
    listed = run("archive", "inspect", "--private", tmp_path / "bare", "--format", "csv")
    assert listed.exit_code == 0 and len(listed.stdout.splitlines()) == 1, listed.output
    listed = run("archive", "inspect", "--private", own, "--format", "csv")
    assert "users" in listed.stdout and "gwendolyn" not in listed.stdout.replace(str(own), "")


def test_archives_are_merged_and_read_together(tmp_path: Path, archived: Path) -> None:
    other = capture(tmp_path / "other", capture_id="other", batch_size=64)
    assert run("archive", "create", other, "-o", tmp_path / "o").exit_code == 0
    both = [archived / "sample.tbd.zip", tmp_path / "o"]
    assert run("archive", "merge", *both, "-o", tmp_path / "m.zip").exit_code == 0
    assert not wrong(tmp_path / "m.zip")
    rates = pytest.approx([64 * BATCHES_PER_S, 32 * BATCHES_PER_S])
    for opened in (tbd_trace.open(tmp_path / "m.zip"), tbd_trace.open(*both)):
        assert sorted(opened.query("throughput")["samples_per_s"], reverse=True) == rates
    mixed = tbd_trace.open(SAMPLE, tmp_path / "o")
    assert sorted(mixed.query("throughput")["samples_per_s"], reverse=True) == rates
    twice = tbd_trace.open(archived / "sample", archived / "sample.tbd.zip", SAMPLE)
    assert twice.query("throughput").height == 1


def test_profiles_go_in_on_demand(tmp_path: Path) -> None:
    target = tmp_path / "with.tbd.zip"
    done = run("archive", "create", SAMPLE, "-o", target, "--profiles", "--keep", "all")
    assert done.exit_code == 0, done.output
    assert "the profiler files are not redacted" in done.stderr
    assert run("archive", "extract", target, "-o", tmp_path / "out").exit_code == 0
    unpacked = tmp_path / "out" / "captures" / "synthetic-cnn"
    for name in ("timeline.sqlite", "metrics.csv"):
        assert (unpacked / name).read_bytes() == (SAMPLE / name).read_bytes()
    rates = [tbd_trace.open(x).query("throughput")["samples_per_s"] for x in (unpacked, SAMPLE)]
    assert rates[0].equals(rates[1])


def test_a_profile_that_is_gone_or_changed_is_reported(tmp_path: Path) -> None:
    own = Path(shutil.copy(SAMPLE / "timeline.sqlite", tmp_path / "own.sqlite"))
    assert run("ingest", own, "--db", tmp_path / "db.duckdb").exit_code == 0
    words = [
        "archive",
        "create",
        "--db",
        tmp_path / "db.duckdb",
        "--profiles",
        "-o",
        tmp_path / "a",
    ]
    flipped(own, 30, 0)
    assert "was changed since it was ingested" in failing(*words)
    own.unlink()
    assert "is missing" in failing(*words)
    assert not (tmp_path / "a").exists()


def test_nothing_is_ingested_into_an_archive(archived: Path, elsewhere: Path) -> None:
    profile = SAMPLE / "metrics.csv"
    for place in (archived / "sample", archived / "sample.tbd.zip"):
        assert "choose another --db" in failing("ingest", profile, "--db", place)
    line = failing("ingest", profile, "--db", "https://example.org/a", code=2)
    assert "can only be read from" in line
    assert not list(elsewhere.iterdir())


def test_ls_lists_the_traces(archived: Path) -> None:
    done = run("archive", "ls", archived / "sample", "--format", "json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["synthetic_cnn/timeline.sqlite"]["kernels"] == 301
    assert rows["synthetic_cnn/metrics.csv"]["tool"] == "ncu"


def test_verify_tells_each_archive(archived: Path, tmp_path: Path) -> None:
    bad = Path(shutil.copytree(archived / "sample", tmp_path / "bad"))
    flipped(next(bad.glob("traces/*/kernel.parquet")), 50, 2)
    done = run("archive", "verify", archived / "sample.tbd.zip", bad, tmp_path / "none")
    assert done.exit_code == 1
    assert "sample.tbd.zip: sound" in done.stdout
    assert "kernel.parquet was changed or damaged" in done.stderr
    assert done.stderr.count("error: ") == 2


@pytest.mark.parametrize("form", ["sample", "sample.tbd.zip"])
@pytest.mark.parametrize("ranges", [True, False])
def test_urls_are_read_as_far_as_needed(
    sample_database: Database, archived: Path, cache_of_its_own: Path, form: str, ranges: bool
) -> None:
    pytest.importorskip("fsspec")
    expected = answer(Traces(sample_database, sample_database.trace_ids()), "kernel_summary")
    with serving(archived, ranges=ranges) as site:
        url = f"{site.url}/{form}"
        assert answer(open_traces(url), "kernel_summary") == expected
        assert not any("annotation" in path for path in site.asked)
        assert not list(problems(open_archive(url)))
        first = len(site.asked)
        assert answer(open_traces(db=url), "kernel_summary") == expected
        again = [path for path in site.asked[first:] if path.endswith(".parquet")]
        assert not again  # they are in the cache
        for kept in cache_of_its_own.rglob("kernel.parquet"):
            flipped(kept, 99, 1)
        assert answer(open_traces(url), "kernel_summary") == expected


def test_urls_that_cannot_be_read_are_reported(
    archived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setattr(remote_files, "_SILENT_SECONDS", 0.2)
    with serving(archived) as site, silent() as nothing:
        assert "not a trace archive" in failing("query", "throughput", f"{site.url}/none")
        assert "not found" in failing("query", "throughput", f"{site.url}/none.zip")
        for url in (f"{nothing}/archive", f"{nothing}/archive.zip"):
            assert "check the address" in failing("query", "throughput", url)
    assert "check the address" in failing("query", "throughput", f"{site.url}/gone")
    assert "cannot be opened" in failing("query", "throughput", "gopher://x/y", code=2)


def test_any_file_system_of_fsspec_will_do(archived: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(archived / "sample"), "/shared/sample", recursive=True)
    memory.put(str(archived / "sample.tbd.zip"), "/shared/sample.tbd.zip")
    for form in ("sample", "sample.tbd.zip"):
        assert tbd_trace.open(f"memory://shared/{form}").query("throughput").height == 1


def test_without_fsspec_a_url_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    line = failing("query", "throughput", "https://example.org/a.tbd.zip", code=2)
    assert "pip install 'tbd-trace[remote]'" in line


def test_archives_are_readable_by_others(sample_database: Database, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for name in ("a", "a.zip"):
            ids = sample_database.trace_ids()
            create(sample_database, ids, tmp_path / name, redaction=Redaction())
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a.zip").stat().st_mode & 0o777 == 0o644


def test_a_run_is_compared_with_an_archived_one(archived: Path) -> None:
    for pair in ([archived / "sample.tbd.zip", SAMPLE], [SAMPLE, archived / "sample"]):
        done = run("diff", *pair)
        assert done.exit_code == 0, done.output
        assert "no change beyond noise" in done.stdout
