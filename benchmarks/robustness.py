"""Damage databases, fill disks, kill ingests, search shared files, and count the outcomes.

Usage: python -m benchmarks.robustness [--flips 400] [--kills 20] [--inputs 1000]

Prints the figures of docs/explanation/robustness.md. Exit code 1 if an answer was wrong, a file was
left half written, or a planted text was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import duckdb

from tbd_trace.errors import TbdTraceError
from tbd_trace.store import Database

_ROOT = Path(__file__).resolve().parents[1]
_SAMPLE = _ROOT / "data" / "samples" / "synthetic_cnn"
_TBD = (sys.executable, "-m", "tbd_trace")
_DISK_BYTES = (0, 1_000, 20_000, 10_000_000)  # the largest file that can be written
_MARKERS = (
    "token=ghp_{}abcdefghijklmnopqrstuvwx12", "AKIA{}AAAAAAAA", "sk-proj-{}abcdefghijklmnopqrstuv",
    "Authorization: Bearer {}abcdefghijklmnop", "postgres://bob:{}@db.example.com:5432/x",
    "/home/{}/train.py", "C:\\Users\\{}\\train.py", "HOSTNAME={}", "mail {}@example.com",
    "--password {}", "hf_{}abcdefghijklmnopqrstuvwxyz", "/mnt/{}/images/train.rec",
)  # fmt: skip
"""Forms of private texts; {} is replaced by a word that no other text contains."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=400)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--inputs", type=int, default=1000, help="of the fuzzer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["TBD_TRACE_CACHE"] = str(folder / "cache")
        failures = 0
        tests: Sequence[tuple[str, Callable[[], Result]]] = (
            ("One-bit changes of a database's files", lambda: flip_bits(folder, options.flips)),
            ("Full disks", lambda: fill_disks(folder)),
            ("Killed ingests", lambda: kill_ingests(folder, options.kills)),
            ("Planted private texts", lambda: search_markers(folder)),
        )
        for title, test in tests:
            counts, bad = test()
            outcomes = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            print(f"{title}: {outcomes}", flush=True)
            failures += sum(counts[name] for name in bad)
    fuzz = [sys.executable, "-m", "fuzz", "--inputs", str(options.inputs)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "tests")}
    print("\nChanged files of each kind:\n", flush=True)
    failures += subprocess.run(fuzz, env=environment, check=False).returncode
    sys.exit(failures != 0)


Result = tuple[Counter[str], Sequence[str]]
"""Outcomes, and which of them are failures."""


def flip_bits(folder: Path, flips: int) -> Result:
    """Change one bit of a file and read its table, once for each flip."""
    path = folder / "flips" / "x.duckdb"
    path.parent.mkdir()
    Database(path).ingest([_SAMPLE])
    files = sorted(Database(path).traces_directory.rglob("*.parquet"))
    expected = {file: _rows(path, file) for file in files}
    rng = random.Random(1)
    counts = Counter({"refused": 0, "same": 0, "wrong": 0})
    for _ in range(flips):
        file = rng.choice(files)
        content = file.read_bytes()
        changed = bytearray(content)
        changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(changed)
        try:
            counts["same" if _rows(path, file) == expected[file] else "wrong"] += 1
        except (TbdTraceError, duckdb.Error) as error:
            counts["refused" if isinstance(error, TbdTraceError) else "wrong"] += 1
        file.write_bytes(content)
    return counts, ["wrong"]


def _rows(database: Path, file: Path) -> list[tuple[object, ...]]:
    relation = Database(database).relation(file.name.split(".")[0], [file.parent.name])
    with duckdb.connect() as connection:
        return connection.execute(f"FROM ({relation}) ORDER BY ALL").fetchall()


def fill_disks(folder: Path) -> Result:
    """Run commands that write, with limits of the size of a file."""
    database = folder / "disks.duckdb"
    Database(database).ingest([_SAMPLE])
    counts = Counter({"written": 0, "refused, old file kept": 0, "damaged": 0})
    for size in _DISK_BYTES:
        for words, target in (
            (("query", "kernel_summary", "--limit", "0"), "answer.csv"),
            (("report",), "report.html"),
            (("archive", "create", "--force"), "run.tbd.zip"),
            (("export", "perfetto"), "run.pftrace"),
            (("query", "iteration_timing", "--plot"), "plot.svg"),
        ):
            file = folder / target
            file.write_text("old")
            before = sorted(path.name for path in folder.iterdir())
            to = (str(file),) if words[-1] == "--plot" else ("-o", str(file))
            code = _limited([*_TBD, *words, *to, "--db", str(database)], size)
            content = file.read_bytes() if file.exists() else b""
            kept = content == b"old" and sorted(p.name for p in folder.iterdir()) == before
            outcome = "written" if code == 0 and content != b"old" else "refused, old file kept"
            counts["damaged" if code and not kept else outcome] += 1
    return counts, ["damaged"]


def _limited(command: Sequence[str], size: int) -> int:
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        # Python takes a compiled module that the limit cut for whole.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    ).returncode


def kill_ingests(folder: Path, kills: int) -> Result:
    """Kill ingests at random times; then ingest again and compare the count of kernels."""
    rng = random.Random(1)
    begin = time.monotonic()
    _kernels(folder / "whole.duckdb")
    usual_s = time.monotonic() - begin
    counts = Counter({"nothing left": 0, "complete before": 0, "partial": 0})
    for number in range(kills):
        database = folder / "kills" / f"{number}.duckdb"
        process = subprocess.Popen(
            [*_TBD, "ingest", str(_SAMPLE / "timeline.sqlite"), "--db", str(database)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(rng.uniform(0.1, 1) * usual_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        was_there = bool(Database(database).trace_ids())
        is_whole = _kernels(database) == 301
        counts["partial" if not is_whole else _LEFT[was_there]] += 1
    return counts, ["partial"]


_LEFT = {False: "nothing left", True: "complete before"}


def _kernels(database: Path) -> int:
    command = [*_TBD, "ingest", str(_SAMPLE / "timeline.sqlite"), "--db", str(database)]
    subprocess.run(command, check=True, capture_output=True)
    store = Database(database)
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT count(*) FROM ({store.relation('kernel', store.trace_ids())})"
        )
        return int(rows.fetchall()[0][0])


def search_markers(folder: Path) -> Result:
    """Plant private texts in ranges and kernel names, and search the files made to be shared."""
    profile = Path(shutil.copy(_SAMPLE / "timeline.sqlite", folder / "planted.sqlite"))
    words = [f"qzx{chr(97 + i)}wvkqj" for i in range(len(_MARKERS))]
    words[1] = "QZXBWVKQ"  # keys of AWS are in upper case
    texts = [form.format(word) for form, word in zip(_MARKERS, words, strict=True)]
    with closing(sqlite3.connect(profile)) as file, file:
        ids = file.execute(
            "SELECT DISTINCT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT ?", (len(texts),)
        ).fetchall()
        for (number,), text in zip(ids, texts, strict=False):
            value = f'void k{number}<int>("{text}")'
            file.execute("UPDATE StringIds SET value = ? WHERE id = ?", (value, number))
        ranges = file.execute("SELECT rowid FROM NVTX_EVENTS WHERE text IS NOT NULL").fetchall()
        for (row,), text in zip(ranges[::-1], texts, strict=False):
            file.execute("UPDATE NVTX_EVENTS SET text = ? WHERE rowid = ?", (text, row))
    database = folder / "planted.duckdb"
    Database(database).ingest([profile])
    made = []
    for arguments, target in (
        (("archive", "create"), "shared.tbd.zip"),
        (("report", "--share"), "shared.html"),
        (("export", "perfetto"), "shared.pftrace"),
        (("export", "table", "kernel"), "shared.csv"),
    ):
        made.append(folder / target)
        command = [*_TBD, *arguments, "-o", str(made[-1]), "--db", str(database)]
        subprocess.run(command, check=True, capture_output=True)
    with zipfile.ZipFile(made[0]) as archive:
        archive.extractall(folder / "unpacked")
    shared = b"".join([*map(_content, made[1:]), *map(_content, folder.glob("unpacked/**/*.*"))])
    counts = Counter(
        {"planted": len(words), "found": sum(word.encode() in shared for word in words)}
    )
    return counts, ["found"]


def _content(path: Path) -> bytes:
    # Values of Parquet files are compressed.
    if path.suffix != ".parquet":
        return path.read_bytes() if path.is_file() else b""
    with duckdb.connect() as connection:
        rows = connection.execute("FROM read_parquet($file)", {"file": str(path)}).fetchall()
    return json.dumps(rows, default=str).encode()


if __name__ == "__main__":
    main()
