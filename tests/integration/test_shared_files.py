"""Nothing private that a program says about itself is in what tbd-trace writes to be shared."""

from __future__ import annotations

import shutil
import sqlite3
import zipfile
from itertools import chain
from pathlib import Path

import duckdb
import pytest

import tbd_trace
from fast import nightly
from program import METRICS, TIMELINE, changed, complaint, invoke
from tbd_trace.cli.redacted import redacted

# Texts as programs write them, and the private parts of each.
PLANTED = {
    "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz12": ["hf_abcdefgh"],
    "https://hooks.slack.com/services/T000/B000/ABCDEFGHIJKLMNOPQRSTUVWX": ["ABCDEFGHIJ"],
    "-----BEGIN RSA PRIVATE KEY----- MIIEpAIBAAKC -----END RSA PRIVATE KEY-----": ["MIIEpAIBAAKC"],
    "DefaultEndpoints=https;AccountName=x;AccountKey=Zm9vYmFyYmF6==;": ["Zm9vYmFyYmF6"],
    "postgres://bob:letmein99@db.inner.example:5432/x": ["letmein99", "db.inner"],
    "ssh://sandra77@tower99/x": ["sandra77", "tower99"],
    "run as user=walter77 on node=castle99": ["walter77", "castle99"],
    "SLURM_JOB_USER=oscar77 SLURMD_NODENAME=bunker99": ["oscar77", "bunker99"],
    "master [fd00:1234:5678:9abc:def0:1111:2222:3333]:29500": ["fd00:1234"],
    "nic 02:42:ac:11:00:9f up": ["02:42:ac"],
    "on GPU-12345678-aaaa-bbbb-cccc-1234567890ab": ["12345678-aaaa"],
    "mail carol77@corp99.example.com": ["carol77", "corp99"],
    r"\\server99\share\weights.bin": ["server99"],
    "/tmp/vera77/train.py:12": ["vera77"],
    "C:\\Users\\wanda77\\secret\\m.py": ["wanda77"],
    "load token=ghp_abcdefghijklmnopqrstuvwxyz123456": ["ghp_abcdef"],
    "s3 AKIAQWERTYUIOPASDFGH step": ["AKIAQWERTY"],
    "aws_secret_access_key=qWeRtYuIoP/K7MDENG/aSdFgHjKlZxCvBnM12": ["qWeRtYuIoP"],
    "WANDB_API_KEY: 5f0123456789abcdef0123456789abcdef012345": ["5f01234567"],
    "sk-proj-qwertyuiopasdfghjklzxcvbnm0123456789": ["sk-proj-qwer"],
    "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJxd2VydHkifQ.QWERflKxwRJSMeKKF2QT4": ["QWERflKxw"],
    "AIzaSyQwertyuiopasdfghjklzxcvbnm0123456": ["AIzaSyQwer"],
    "nvapi-qwertyuiopasdfghjklzxcvbnm0123456789qwertyuiopasdfghjklzxcvbnm01": ["nvapi-qwer"],
    "glpat-QWERTYuiop1234567890": ["glpat-QWER"],
    "npm_qwertyuiopasdfghjklzxcvbnm0123456789": ["npm_qwer"],
    "--password swordfish77xx": ["swordfish77"],
    "HOSTNAME=lighthouse99.cluster.example": ["lighthouse99"],
    "master 10.20.30.41:29500": ["10.20.30.41"],
    "address fe80::1ff:fe23:4567:890a%eth0": ["fe80::1ff"],
    "/home/martha77/proj/train.py:12": ["martha77"],
    "/mnt/project77/data/x.rec": ["project77"],
    "/lustre/scratch77/erin77/x.bin": ["scratch77", "erin77"],
    "/Users/fay77/x.py": ["fay77"],
}
MARKERS = [marker for markers in PLANTED.values() for marker in markers]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export with each text as an NVTX range and in the name of a kernel."""
    path = Path(shutil.copyfile(TIMELINE, tmp_path_factory.mktemp("planted") / "run.sqlite"))
    with sqlite3.connect(path) as file:
        ranges = file.execute("SELECT rowid FROM NVTX_EVENTS WHERE eventType = 59").fetchall()
        kernels = file.execute(
            "SELECT rowid FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start"
        ).fetchall()
        for number, text in enumerate(PLANTED):
            file.execute(
                "UPDATE NVTX_EVENTS SET text = ?, textId = NULL WHERE rowid = ?",
                (text, *ranges[-1 - number]),
            )
            file.execute(
                "INSERT INTO StringIds VALUES (?, ?)", (900_000 + number, f'run<int>("{text}")')
            )
            file.execute(
                "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = ? WHERE rowid = ?",
                (900_000 + number, *kernels[number]),
            )
    file.close()
    return path


def content(path: Path) -> str:
    """Return every text of a file, also of the tables inside an archive."""
    if path.suffix == ".parquet":
        with duckdb.connect() as connection:
            rows = connection.execute("FROM read_parquet(?)", [str(path)]).fetchall()
        return "\n".join(map(str, chain.from_iterable(rows)))
    if path.suffix != ".zip":
        return path.read_bytes().decode("utf-8", "replace")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(path.with_suffix(""))
    return "\n".join(content(f) for f in path.with_suffix("").rglob("*") if f.is_file())


def found(text: str) -> list[str]:
    return [marker for marker in MARKERS if marker in text]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["archive", "create"], "run.zip"),
        (["export", "perfetto"], "run.pftrace"),
        (["export", "table", "kernel"], "kernel.csv"),
        (["export", "table", "annotation"], "annotation.parquet"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_nothing_planted_is_left(
    planted: Path, command: list[str], output: str, tmp_path: Path
) -> None:
    outcome = invoke(*command, planted, "-o", tmp_path / output)
    assert outcome.code == 0, outcome
    assert not found(outcome.out + outcome.err)
    written = content(tmp_path / output)
    assert not found(written)
    assert "***" in written or "user1" in written


@pytest.mark.slow
def test_the_search_finds_what_is_kept(planted: Path, tmp_path: Path) -> None:
    for table, output in (("kernel", "kernel.csv"), ("annotation", "annotation.parquet")):
        invoke("export", "table", table, planted, "-o", tmp_path / output, "--keep", "all")
        assert found(content(tmp_path / output)) == MARKERS
    invoke("export", "table", "kernel", planted, "-o", tmp_path / "x.csv", "--keep", "users")
    left = found(content(tmp_path / "x.csv"))
    assert {"walter77", "carol77"} <= {*left}
    assert "castle99" not in left


@pytest.fixture(params=["counters", pytest.param("timeline", marks=nightly)])
def reported(request: pytest.FixtureRequest, planted: Path, tmp_path: Path) -> Path:
    """Return a file with planted texts: of counters, about which a report asks little, or all."""
    if request.param == "timeline":
        return planted
    (text, *_) = (text for text in PLANTED if "walter77" in text)
    name = "ampere_scudnn_128x64_relu_small_nn_v1"
    return changed(tmp_path / "run.csv", lambda b: b.replace(name.encode(), text.encode()), METRICS)


@pytest.mark.slow
def test_a_report_says_that_it_is_not_redacted(reported: Path, tmp_path: Path) -> None:
    own = invoke("report", reported, "-o", tmp_path / "own.html")
    assert "--share redacts private data" in own.err
    assert "tbd-trace report --share" in content(tmp_path / "own.html")
    assert found(content(tmp_path / "own.html"))


@pytest.mark.slow
def test_a_shared_report_is_redacted(planted: Path, tmp_path: Path) -> None:
    shared = invoke("report", "--share", planted, "-o", tmp_path / "shared.html")
    assert "--share" not in shared.err
    assert "Private data are redacted." in content(tmp_path / "shared.html")
    assert not found(content(tmp_path / "shared.html"))


@pytest.mark.slow
def test_an_archive_is_redacted_once(planted: Path, tmp_path: Path) -> None:
    for keep in ("users", None):
        target = tmp_path / f"{keep}.zip"
        options = ["--keep", keep] if keep else []
        assert invoke("archive", "create", planted, "-o", target, *options).code == 0
        opened = tbd_trace.open(target)
        assert opened.database.redacted == (keep is None)
        with redacted(opened) as again:
            assert (again is opened) == (keep is None)
            assert again.database.redacted


def test_share_does_not_reach_other_machines(planted: Path) -> None:
    outcome = invoke("report", "--share", "--dask", "tcp://node:8786", planted)
    assert "run `tbd-trace archive create` first" in complaint(outcome, 2)
