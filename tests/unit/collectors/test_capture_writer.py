"""A capture directory comes into being whole, or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tbd_collectors.capture_writer import check_free, has_records, read_json, write_json, written
from tbd_trace.errors import StoreError, UsageError


def _write(path: Path, text: str = "new", force: bool = False) -> None:
    with written(path, force) as directory:
        assert directory.parent == path.absolute().parent  # one rename: the same file system
        assert not [*directory.iterdir()]
        (directory / "capture.json").write_text(text)


def _tree(path: Path) -> list[str]:
    return sorted(str(entry.relative_to(path)) for entry in path.rglob("*"))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of two files."""
    path = tmp_path / "c"
    _write(path, "old")
    (path / "layers.json").write_text("old")
    return path


def test_a_directory_is_made_with_its_parents(tmp_path: Path) -> None:
    _write(tmp_path / "a" / "b" / "c")
    assert _tree(tmp_path) == ["a", "a/b", "a/b/c", "a/b/c/capture.json"]


def test_a_relative_path_is_one_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with written(Path("c")) as directory:
        (directory / "x").touch()
        monkeypatch.chdir("/")
    assert _tree(tmp_path) == ["c", "c/x"]


def test_what_exists_stays_without_force(capture: Path) -> None:
    with pytest.raises(UsageError, match="exists; choose another -o, or --force"):
        _write(capture)
    assert (capture / "capture.json").read_text() == "old"


def test_force_replaces_a_capture_whole(capture: Path) -> None:
    _write(capture, force=True)
    assert _tree(capture.parent) == ["c", "c/capture.json"]
    assert (capture / "capture.json").read_text() == "new"


def test_force_replaces_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    _write(tmp_path / "c", force=True)
    assert _tree(tmp_path) == ["c", "c/capture.json"]


EMPTY = '{"status": "failed", "files": []}'
THROUGHPUT = '{"status": "failed", "files": [], "throughput": {"samples_per_second": 1.5}}'


def test_a_capture_without_records_is_replaced(tmp_path: Path) -> None:
    _write(tmp_path / "c", EMPTY)
    _write(tmp_path / "c")
    assert (tmp_path / "c" / "capture.json").read_text() == "new"


@pytest.mark.parametrize("text", ["damaged", THROUGHPUT, '{"files": [{"file": "a"}]}'])
def test_force_keeps_records_that_the_new_capture_lacks(text: str, tmp_path: Path) -> None:
    _write(tmp_path / "c", text)
    with pytest.raises(UsageError, match="exists"):
        _write(tmp_path / "c", EMPTY)
    _write(tmp_path / "c", EMPTY, force=True)
    assert _tree(tmp_path) == ["c", "c/capture.json"]
    assert (tmp_path / "c" / "capture.json").read_text() == text


@pytest.mark.parametrize(
    ("job", "rank", "expected"),
    [
        ({"status": "failed", "points": [{"link": []}]}, EMPTY, False),
        ({"status": "failed", "points": [{"link": [{"bytes": 4}]}]}, EMPTY, True),
        ({"status": "failed", "points": []}, THROUGHPUT, True),
        ({"status": "ok", "points": []}, EMPTY, True),
    ],
)
def test_records_of_a_job(job: dict[str, Any], rank: str, expected: bool, tmp_path: Path) -> None:
    write_json(tmp_path / "job.json", job)
    (tmp_path / "rank=0").mkdir()
    (tmp_path / "rank=0" / "capture.json").write_text(rank)
    assert has_records(tmp_path) is expected


def test_an_empty_directory_of_the_user_stays_the_same(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.mkdir(mode=0o770)
    before = path.stat()
    _write(path)
    assert _tree(tmp_path) == ["c", "c/capture.json"]
    assert (path.stat().st_ino, path.stat().st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("kind", ["file", "directory", "link", "broken link"])
def test_force_replaces_no_other_things(capture: Path, kind: str) -> None:
    path = capture.parent / "other"
    if kind == "file":
        path.write_text("mine")
    elif kind == "directory":
        path.mkdir()
        (path / "thesis.tex").write_text("mine")
    else:
        path.symlink_to(capture if kind == "link" else capture.parent / "nowhere")
    before = _tree(capture.parent)
    with pytest.raises(UsageError, match="not a capture"):
        _write(path, force=True)
    with pytest.raises(UsageError, match="exists"):
        _write(path)
    assert _tree(capture.parent) == before
    assert (capture / "capture.json").read_text() == "old"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, UsageError])
@pytest.mark.parametrize("force", [False, True])
def test_an_error_leaves_what_was_there(
    capture: Path, error: type[BaseException], force: bool
) -> None:
    path = capture if force else capture.parent / "d"
    before = _tree(capture.parent)

    def fail() -> None:
        with written(path, force) as directory:
            (directory / "half").touch()
            raise error("stop")

    with pytest.raises(error, match="stop"):
        fail()
    assert _tree(capture.parent) == before
    assert (capture / "capture.json").read_text() == "old"


def test_a_full_disk_is_one_clear_line(capture: Path) -> None:
    def fill() -> None:
        with written(capture, force=True):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "timeline.sqlite")

    before = _tree(capture.parent)
    with pytest.raises(StoreError, match="No space left on device") as caught:
        fill()
    assert "\n" not in str(caught.value)
    assert _tree(capture.parent) == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_an_error_leaves_no_parents_that_were_made(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises((error, StoreError)), written(tmp_path / "mine" / "a" / "b" / "c"):
        raise error("stop")
    assert _tree(tmp_path) == ["mine"]


def test_an_error_leaves_parents_that_hold_something(tmp_path: Path) -> None:
    _write(tmp_path / "suite" / "first")
    with pytest.raises(ValueError, match="stop"), written(tmp_path / "suite" / "second"):
        raise ValueError("stop")
    with pytest.raises(ValueError, match="stop"), written(tmp_path / "a" / "b" / "c"):
        (tmp_path / "a" / "notes").touch()
        raise ValueError("stop")
    assert _tree(tmp_path) == ["a", "a/notes", "suite", "suite/first", "suite/first/capture.json"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_capture_that_cannot_be_put_into_place_leaves_the_old_one(
    capture: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if target == capture and not path.name.endswith(".old"):
            assert (next(capture.parent.glob(".c.*.old")) / "layers.json").read_text() == "old"
            raise error("stop")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises((error, StoreError)):
        _write(capture, force=True)
    assert _tree(capture.parent) == ["c", "c/capture.json", "c/layers.json"]
    assert (capture / "capture.json").read_text() == "old"


def test_an_old_capture_that_cannot_be_removed_is_named(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **_: object) -> None:
        assert (capture / "capture.json").read_text() == "new"
        if path.name.endswith(".old"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "layers.json")

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(StoreError, match=r"is written, but .* \(Permission denied\); remove") as e:
        _write(capture, force=True)
    left = Path(str(e.value).rpartition(" remove ")[2])
    assert (left / "layers.json").read_text() == "old"


@pytest.mark.parametrize("force", [False, True])
def test_what_came_meanwhile_stays(tmp_path: Path, force: bool) -> None:
    path = tmp_path / "c"
    with pytest.raises(UsageError, match=r"exists|not a capture"), written(path, force):
        path.mkdir()
        (path / "thesis.tex").write_text("mine")
    assert _tree(tmp_path) == ["c", "c/thesis.tex"]


def test_a_parent_that_is_a_file_cannot_hold_a_capture(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written \((Not a directory|File exists)"):
        _write(tmp_path / "file" / "c")


def test_a_place_without_permission_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, *_: object, **_options: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        with pytest.raises(StoreError, match=r"cannot be written \(Permission denied\)"):
            _write(tmp_path / "c")
    assert _tree(tmp_path) == []


def test_a_name_that_is_too_long_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="name too long"):
        _write(tmp_path / ("c" * 300))


def test_a_free_place_is_free(tmp_path: Path) -> None:
    check_free(tmp_path / "c", force=False)
    check_free(tmp_path / "c", force=True)
    assert _tree(tmp_path) == []


def test_json_leaves_out_what_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 0, "b": None, "c": "ü", "d": []})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 0, "c": "ü", "d": []}
    assert read_json(path) == {"a": 0, "c": "ü", "d": []}


@pytest.mark.parametrize("content", [None, b"", b'{"a": 1', b"[1]", b"\xff\xfe"])
def test_json_that_is_missing_or_cut_off_says_nothing(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    assert read_json(path) == {}
