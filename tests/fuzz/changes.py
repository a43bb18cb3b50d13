"""Changes of valid inputs: of their values and structure first, then of their bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

Change = Callable[[random.Random, Path], None]

INTEGERS = (
    0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, -(2**63), 10**18,
)  # fmt: skip
TEXTS = (
    "", "text", "0", "-1", "1e400", "NaN", "inf", "9" * 400, "1,5", "0x10", "a\x00b", "\x1b[31mred",
    "\u202etxt", "\ud800", "x" * 5000, "'; DROP TABLE kernel; --", "<script>alert(1)</script>",
    "=cmd()", "%s%n", "../../etc/passwd", "\n", "€𝄞",
)  # fmt: skip
REALS = (0.5, -0.0, 1e300, -1e300, 5e-324, float("inf"), float("-inf"), float("nan"))
MARKER = "executed-by-pickle"
"""File that a planted pickle would write if it were executed."""


def value(rng: random.Random) -> Any:
    """Return an extreme integer, real, text, or None."""
    return rng.choice((rng.choice(INTEGERS), rng.choice(TEXTS), rng.choice(REALS), None))


def change_sqlite(rng: random.Random, path: Path) -> None:
    """Change cells, rows, columns and tables, or the bytes of pages."""
    if rng.random() < 0.2:
        return damage(rng, path)
    with closing(sqlite3.connect(path)) as database, database:
        for _ in range(rng.randint(1, 3)):
            # A change can contradict an earlier one: the column is gone, the id is taken.
            with suppress(sqlite3.Error):
                _change_table(rng, database)
        if rng.random() < 0.05:
            _plant_code(rng, database)
    return None


def _change_table(rng: random.Random, database: sqlite3.Connection) -> None:
    tables = _tables(database)
    # Half of all changes are to the kernels, whose count is known.
    kernels = [name for name in tables if name.endswith("_KERNEL")]
    table = rng.choice(kernels if kernels and rng.random() < 0.5 else tables)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")').fetchall()]
    column = rng.choice(columns)
    ids = [i for (i,) in database.execute(f'SELECT rowid FROM "{table}"').fetchall()] or [0]
    chosen = sorted(rng.sample(ids, rng.randint(1, len(ids))))
    rows = f"rowid IN ({', '.join(map(str, chosen))})"
    new = value(rng)
    if isinstance(new, str):
        new = new.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    run = database.execute
    action = rng.randrange(11)
    if action <= 4:
        run(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (new, rng.choice(ids)))
    elif action == 5:
        run(f'UPDATE "{table}" SET "{column}" = ? WHERE {rows}', (new,))
    elif action == 6:
        run(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    elif action == 7:
        run(f'DROP TABLE "{table}"')
    elif action == 8:
        run(f'DELETE FROM "{table}" WHERE {rows}')
    elif action == 9:
        listed = ", ".join(f'"{name}"' for name in columns if name != "_id_")
        run(f'INSERT INTO "{table}" ({listed}) SELECT {listed} FROM "{table}" WHERE {rows}')
    else:
        run(f'UPDATE "{table}" SET "{column}" = CAST(X\'ff00fe41\' AS TEXT) WHERE {rows}')


def _tables(database: sqlite3.Connection) -> list[str]:
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [name for (name,) in rows]


def _plant_code(rng: random.Random, database: sqlite3.Connection) -> None:
    # A view without end, or a computed column of 800 MB: code that a reader must not run.
    if not (tables := _tables(database)):
        return
    table = rng.choice(tables)
    if rng.random() < 0.5:
        database.execute(f'ALTER TABLE "{table}" ADD COLUMN more AS (hex(zeroblob(400000000)))')
        return
    database.execute(f'ALTER TABLE "{table}" RENAME TO moved')
    database.execute(
        f'CREATE VIEW "{table}" AS WITH RECURSIVE r(start) AS '
        '(SELECT 1 UNION ALL SELECT start + 1 FROM r) SELECT start, start + 1 AS "end" FROM r'
    )


def change_json(rng: random.Random, path: Path) -> None:
    """Change values, keys and nesting, or the text."""
    packed = path.suffix == ".gz"
    content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    content = rng.choices((_changed_json, _damaged), (6, 4))[0](rng, content)
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    if packed and rng.random() < 0.2:
        damage(rng, path)


def change_json_lines(rng: random.Random, path: Path) -> None:
    """Change the document of one line, or the text."""
    if rng.random() < 0.3:
        return change_text(rng, path)
    lines = path.read_bytes().splitlines()
    at = rng.randrange(len(lines))
    lines[at] = _changed_json(rng, lines[at])
    path.write_bytes(b"\n".join(lines))
    return None


def _changed_json(rng: random.Random, content: bytes) -> bytes:
    document = json.loads(content)
    for _ in range(rng.randint(1, 3)):
        if document:
            _replace(rng, *_place(rng, document))
    text = json.dumps(document)
    if rng.random() < 0.1:
        text = text.replace('"name"', f'"name": {json.dumps(rng.choice(TEXTS))}, "name"', 1)
    return text.encode()


def _place(rng: random.Random, document: Any) -> tuple[Any, Any]:
    # A random walk, so that shallow and deep values are as likely.
    holder, key = document, None
    while True:
        key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.05:
            return holder, key
        holder = inner


def _replace(rng: random.Random, holder: Any, key: Any) -> None:
    action = rng.randrange(8)
    if action == 0:
        del holder[key]
    elif action == 1:
        deep: Any = value(rng)
        for _ in range(rng.choice((3, 200))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        holder[key] = deep
    elif action == 2 and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder)), holder[key])
    elif action == 3:
        holder[key] = rng.choice((10**30, -(10**30), 10**400, True))
    elif action == 4:
        holder[key] = str(holder[key])
    else:
        holder[key] = value(rng)


def change_text(rng: random.Random, path: Path) -> None:
    """Change cells, lines, separators and encoding, or the bytes of a text."""
    if rng.random() < 0.25:
        return damage(rng, path)
    text = path.read_text(encoding="utf-8")
    if rng.random() < 0.75:
        text = _changed_cells(rng, text)
    else:
        text = text.replace(
            *rng.choice(((",", ";"), (",", "\t"), (".", ","), ('"', "'"), ("\n", "\r")))
        )
    coding = rng.choice(("utf-8",) * 7 + ("utf-16", "utf-8-sig", "latin-1"))
    path.write_bytes(text.encode(coding, "replace"))
    return None


def _changed_cells(rng: random.Random, text: str) -> str:
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        action = rng.randrange(8)
        cells = next(csv.reader([lines[at]]), []) if '"' in lines[at] else lines[at].split(" ")
        if action == 0:
            del lines[at]
        elif action == 1:
            lines.insert(at, lines[at])
        elif action == 2 and len(cells) > 1:
            del cells[rng.randrange(len(cells))]
            lines[at] = _joined(cells, lines[at])
        elif cells:
            cells[rng.randrange(len(cells))] = str(value(rng))
            lines[at] = _joined(cells, lines[at])
        if not lines:
            return ""
    return "\n".join(lines) + "\n"


def _joined(cells: list[str], line: str) -> str:
    if '"' not in line:
        return " ".join(cells)
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_MINIMAL, lineterminator="").writerow(cells)
    return out.getvalue()


def change_pickle(rng: random.Random, path: Path) -> None:
    """Change bytes and opcodes, or plant a call that writes a file."""
    content = bytearray(path.read_bytes())
    if rng.random() < 0.25:
        call = f"cposix\nsystem\n(Vtouch {path.parent / MARKER}\ntR0".encode()
        at = rng.choice((2, rng.randrange(2, len(content))))
        content[at:at] = call
        path.write_bytes(content)
    else:
        damage(rng, path)


def change_capture(rng: random.Random, path: Path) -> None:
    """Change the metadata of a capture directory."""
    change_json(rng, path / "capture.json")


def change_archive(rng: random.Random, path: Path) -> None:
    """Change, rename, repeat or add members of a zip file, or its bytes."""
    if rng.random() < 0.4:
        return damage(rng, path)
    with zipfile.ZipFile(path) as file:
        members = [(info, file.read(info)) for info in file.infolist()]
    at = rng.randrange(len(members))
    info, content = members[at]
    action = rng.randrange(6)
    if action == 0:
        members[at] = info, _changed_json(rng, content) if content[:1] == b"{" else content[:-9]
    elif action == 1:
        info.filename = rng.choice(("../../escaped", "/tmp/escaped", "..\\escaped", "x\x00y", ""))
    elif action == 2:
        members.append((zipfile.ZipInfo(info.filename), content))
    elif action == 3:
        link = zipfile.ZipInfo("traces/link")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        members.append((link, b"/etc/passwd"))
    elif action == 4:
        bomb = zipfile.ZipInfo("captures/bomb.bin")
        bomb.compress_type = zipfile.ZIP_DEFLATED
        members.append((bomb, bytes(20_000_000)))
    else:
        del members[at]
    with zipfile.ZipFile(path, "w") as file:
        for info, content in members:
            file.writestr(info, content)
    return None


def change_store(rng: random.Random, path: Path) -> None:
    """Change one bit of a Parquet file of a database, or cut the file."""
    file = rng.choice(sorted(path.rglob("*.parquet")))
    content = bytearray(file.read_bytes())
    if rng.random() < 0.8:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    else:
        del content[rng.randrange(len(content)) :]
    file.write_bytes(content)


def damage(rng: random.Random, path: Path) -> None:
    """Flip, insert, overwrite or cut bytes of a file."""
    path.write_bytes(_damaged(rng, path.read_bytes()))


def _damaged(rng: random.Random, original: bytes) -> bytes:
    content = bytearray(original)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(content)) if content else 0
        action = rng.randrange(5)
        if action == 0:
            content[at:at] = rng.randbytes(rng.randint(1, 8))
        elif action == 1:
            content[at : at + rng.randint(1, 64)] = bytes(rng.randint(1, 64))
        elif action == 2 and rng.random() < 0.4:
            del content[at:]
        elif content:
            content[at % len(content)] ^= 1 << rng.randrange(8)
    return bytes(content)


CHANGES: dict[str, Change] = {
    "nsys": change_sqlite, "nvprof": change_sqlite, "nvprof-csv": change_text,
    "ncu-csv": change_text, "kineto": change_json, "kineto-gz": change_json,
    "snapshot": change_pickle, "memory-log": change_json_lines, "nccl-log": change_text,
    "mxnet-csv": change_text, "capture": change_capture, "archive": change_archive,
    "store": change_store,
}  # fmt: skip
