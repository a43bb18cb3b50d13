"""Nsight Systems' own reports: with the real nsys where it is installed, with stand-ins for it."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from pathlib import Path

import pytest

import nsys_agent
from made_nsys import ingest, kernel, strings, write
from processes import end_soon
from tbd_trace.errors import InputError
from tbd_trace.machine.nsys_export import made_by
from tbd_trace.sources.nsys.detection import NSYS_REPORT, NsysReportSource

REPORT = b"NVIDIA Tegra Profiler Report 1.\n" + bytes(100) + b"2024.4.2.133-244234382004v0:"
STREAM = b"U3w[END]NVIDIA Nsight Systems Stream 2024.4.2.133-244234382004v0!" + bytes(100)


def program(folder: Path, text: str, name: str = "nsys") -> Path:
    """Write a shell script that stands in for a program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text), encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "a report.nsys-rep"
    path.write_bytes(REPORT)
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def only_path(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), "/usr/bin", "/bin"]))
    monkeypatch.delenv("QUADD_INSTALL_DIR", raising=False)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (REPORT, True),
        (STREAM, True),
        (b"SQLite format 3\x00" + bytes(100), False),
        (b"a text about the NVIDIA tools and more", False),
        (b" " * 100 + REPORT, False),
    ],
)
def test_detects_by_magic(tmp_path: Path, head: bytes, expected: bool) -> None:
    assert NSYS_REPORT.detect(tmp_path / "any.bin", head) is expected


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (REPORT, "2024.4.2.133"),
        (STREAM, "2024.4.2.133"),
        (REPORT + b" 2022.1.3.3-1c7b5f7", None),  # which of the two?
        (REPORT[:40], None),
    ],
)
def test_version_of_a_report(tmp_path: Path, content: bytes, version: str | None) -> None:
    path = tmp_path / "some.nsys-rep"
    path.write_bytes(content)
    assert made_by(path) == version


def test_without_nsys(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    with pytest.raises(InputError) as caught:
        NSYS_REPORT.open(report)
    message = str(caught.value)
    assert message.startswith(f"{report}: an Nsight Systems report, which only nsys can read")
    assert "put nsys 2024.4.2.133 or newer on PATH" in message
    assert "\n" not in message


def test_nsys_that_is_too_old(
    report: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
    if [ "$1" = --version ]; then
        echo "NVIDIA Nsight Systems version 2022.4.2.1-df9881f"; exit 0
    fi
    printf 'Exporting 3 events: [1%%   ]\\rExporting 3 events: [==100%%]\\n'
    echo "Exportation error: Report was created in Nsight Systems version (2024.4)" >&2
    exit 1
    """
    only_path(monkeypatch, program(tmp_path / "bin", script).parent)
    with pytest.raises(InputError) as caught:
        NSYS_REPORT.open(report)
    assert str(caught.value) == (
        f"{report}: made by nsys 2024.4.2.133, which the installed nsys 2022.4.2.1 is too old to "
        "read (Exportation error: Report was created in Nsight Systems version (2024.4)); "
        "install nsys 2024.4.2.133 or newer"
    )
    assert list(temporary.iterdir()) == []


def test_export_that_fails_silently(
    report: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_path(monkeypatch, program(tmp_path / "bin", "exit 0").parent)
    with pytest.raises(InputError, match=r"cannot export this report .* \(no output\)"):
        NSYS_REPORT.open(report)
    assert list(temporary.iterdir()) == []


def test_nsys_that_hangs_is_ended_with_its_helpers(
    report: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "helper.pid"
    script = f"""
    sleep 300 &
    echo $! > "{helper}"
    wait
    """
    only_path(monkeypatch, program(tmp_path / "bin", script).parent)
    started = time.monotonic()
    with pytest.raises(InputError, match=r"did not finish within 0\.5 s"):
        NsysReportSource(timeout_s=0.5).open(report)
    assert time.monotonic() - started < 30
    assert end_soon(int(helper.read_text()))
    assert list(temporary.iterdir()) == []


def test_an_export_is_read_and_removed(
    report: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = write(
        tmp_path / "export.sqlite",
        {"StringIds": strings(), "CUPTI_ACTIVITY_KIND_KERNEL": [kernel()]},
    )
    script = f"""
    for option in "$@"; do
        case "$option" in --output=*) cp "{export}" "${{option#--output=}}";; esac
    done
    """
    only_path(monkeypatch, program(tmp_path / "bin", script).parent)
    with NSYS_REPORT.open(report) as reader:
        found, description = ingest(reader)
        assert len(list(temporary.iterdir())) == 1
    assert [row["short_name"] for row in found["kernel"]] == ["gemm"]
    assert description.tool_version == "2024.4.2.133"
    assert list(temporary.iterdir()) == []


def test_stream_without_an_importer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.qdstrm"
    path.write_bytes(STREAM)
    only_path(monkeypatch, program(tmp_path / "bin", "exit 0").parent)
    with pytest.raises(InputError, match=r"has no QdstrmImporter: .* nsys 2024\.4\.2\.133"):
        NSYS_REPORT.open(path)


def test_export_gets_what_nsys_does_not_find(
    report: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian splits the package: what nsys exports with lies beside a link to it."""
    whole = tmp_path / "lib" / "nsight-systems"
    program(whole / "host-linux-x64", "exit 0", "QdstrmImporter")
    real = program(tmp_path / "arch" / "target-linux-x64", 'echo "home=$QUADD_INSTALL_DIR"; exit 1')
    (whole / "target-linux-x64").symlink_to(real.parent)
    (whole / "bin").mkdir()
    (whole / "bin" / "nsys").symlink_to("../target-linux-x64/nsys")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nsys").symlink_to(whole / "bin" / "nsys")
    only_path(monkeypatch, folder)
    with pytest.raises(InputError, match=re.escape(f"(home={whole})")):
        NSYS_REPORT.open(report)
    monkeypatch.setenv("QUADD_INSTALL_DIR", "/of/the/user")
    with pytest.raises(InputError, match=re.escape("(home=/of/the/user)")):
        NSYS_REPORT.open(report)


def test_importer_is_found_along_links(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "nsight-systems"
    program(root / "host-linux-x64", "echo importer ran >&2; exit 2", "QdstrmImporter")
    nsys = program(root / "target-linux-x64", "exit 0")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nsys").symlink_to(nsys)
    path = tmp_path / "r.qdstrm"
    path.write_bytes(STREAM)
    only_path(monkeypatch, folder)
    with pytest.raises(InputError, match="importer ran"):
        NSYS_REPORT.open(path)
    assert list(temporary.iterdir()) == []


def test_importer_that_appends_to_a_stream(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "nsight-systems"
    imports = 'echo importer ran >&2; echo more >> "$2"; exit 2'
    program(root / "host-linux-x64", imports, "QdstrmImporter")
    nsys = program(root / "target-linux-x64", "exit 0")
    path = tmp_path / "r.qdstrm"
    path.write_bytes(STREAM)
    only_path(monkeypatch, nsys.parent)
    with pytest.raises(InputError, match="importer ran"):
        NSYS_REPORT.open(path)
    assert path.read_bytes() == STREAM


# --- the real one -------------------------------------------------------------------------------

_PROGRAM = """
import ctypes, pathlib, threading
import nvtx
with nvtx.annotate("step 0"):
    with nvtx.annotate("inner", domain="library", payload=7):
        pass
nvtx.mark("here")
started = nvtx.start_range("crossing")
thread = threading.Thread(target=nvtx.end_range, args=(started,))
thread.start()
thread.join()
nvtx.push_range("never closed")
"""


def profiled(folder: Path, source: str, *, is_shown: bool = True) -> Path:
    """Profile a Python program with NVTX traced; return the report.

    With ``is_shown`` nsys is shown its importer where it does not find it by itself.
    """
    script = folder / "program.py"
    script.write_text(source, encoding="utf-8")
    variables = nsys_agent.environment() if is_shown else os.environ
    options = ["-f", "true", "-t", "nvtx", "-s", "none", "--cpuctxsw=none", "-o", "r"]
    made = nsys_agent.nsys(["profile", *options, sys.executable, script], folder, variables)
    found = [path for path in folder.glob("r.*") if path.suffix in (".nsys-rep", ".qdstrm")]
    if not found:
        pytest.skip(f"nsys makes no report here: {made.stdout[-300:]}")
    return found[0]


@pytest.mark.needs("nsys")
def test_real_report(tmp_path: Path, temporary: Path) -> None:
    path = profiled(tmp_path, "print('nothing to trace')")
    assert NSYS_REPORT.detect(path, path.read_bytes()[:65536])
    with NSYS_REPORT.open(path) as reader:
        found, description = ingest(reader)
    assert found["kernel"] == found["process"] == []
    assert description.tool_version == description.export_version
    assert description.schema_version is not None
    assert abs((description.utc_start_ns or 0) / 1e9 - time.time()) < 3600
    assert any("no CUDA activity" in note for note in description.notes)
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.needs("nsys")
def test_real_stream(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who sets no variable reads what Debian's nsys leaves, too."""
    monkeypatch.delenv("QUADD_INSTALL_DIR", raising=False)
    path = profiled(tmp_path, "print('nothing to trace')", is_shown=False)
    if path.suffix != ".qdstrm":
        pytest.skip("this nsys finds its importer without help")
    with NSYS_REPORT.open(path) as reader:
        _, description = ingest(reader)
    assert description.tool_version == description.export_version
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [
        "program.py",
        path.name,
        temporary.name,
    ]
    assert list(temporary.iterdir()) == []


@pytest.mark.needs("nsys")
def test_real_damaged_report(tmp_path: Path) -> None:
    path = profiled(tmp_path, "")
    path.write_bytes(path.read_bytes()[:50_000])
    # Under load nsys can leave a .qdstrm, of which it says something else.
    reason = {".nsys-rep": r"\(.*error", ".qdstrm": r"made by nsys [\d.]+ \(File is corrupted"}
    message = rf"nsys [\d.]+ cannot export this report {reason[path.suffix]}"
    with pytest.raises(InputError, match=message):
        NSYS_REPORT.open(path)


@pytest.mark.needs("nsys")
def test_real_ranges(tmp_path: Path) -> None:
    pytest.importorskip("nvtx")
    # Under load nsys 2022.4 ends the range that is left open after the session that it reports,
    # once in seventy times: nothing then says that it was open.
    for _ in range(3):
        with NSYS_REPORT.open(profiled(tmp_path, _PROGRAM)) as reader:
            found, _ = ingest(reader)
        ranges = {row["text"]: row for row in found["nvtx_range"]}
        if any(row["is_open"] for row in ranges.values()):
            break
    assert set(ranges) == {"step 0", "inner", "crossing", "never closed"}
    assert (ranges["inner"]["domain"], ranges["inner"]["payload"]) == ("library", 7.0)
    assert ranges["step 0"]["domain"] is None
    assert ranges["crossing"]["kind"] == "start_end"
    assert ranges["crossing"]["end_thread_id"] != ranges["crossing"]["thread_id"]
    assert [text for text, row in ranges.items() if row["is_open"]] == ["never closed"]
    assert [row["text"] for row in found["nvtx_mark"]] == ["here"]
    assert len(found["process"]) == 1
