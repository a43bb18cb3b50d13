"""What is taken out of traces that are shared, and what stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import ROOT
from made_trace import MadeTrace
from tbd_trace.archive.leak_scan import leaks_in_tables
from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.redact.column_policy import COLUMN_POLICIES
from tbd_trace.redact.json_documents import Redactor
from tbd_trace.redact.leak_report import FILE_KINDS
from tbd_trace.redact.secrets import TOKEN_CANDIDATE, _token_patterns, text_without_secrets
from tbd_trace.redact.tables import KINDS, Redaction, TableRedactor, parse_keep
from tbd_trace.redact.text import CANDIDATE

# A machine whose names are in no test by chance.
HOST, USER = "lab-node-17.physics.example.org", "jabberwocky"


@pytest.fixture(autouse=True)
def machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path_factory.getbasetemp()  # has the real user's name
    _be_the_machine(monkeypatch)


def _be_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: HOST)
    monkeypatch.setattr("getpass.getuser", lambda: USER)
    monkeypatch.setenv("HOME", f"/home/{USER}")


def redacted(text: str, *keep: str, knowing: str = "") -> str:
    """Return what a text becomes, by itself or beside others."""
    redactor = Redactor(frozenset(keep))
    for known in (text, knowing):
        redactor.collect_identities(known)
    return redactor.text(text, lambda _kind, _value: None)


def test_every_column_of_texts_is_decided() -> None:
    """A new text column of a canonical table must name how it is redacted."""
    there = {
        (table.name, column.name)
        for table in canonical_tables().values()
        for column in table.columns
        if column.type.startswith("VARCHAR") and column.name != "trace_id"
    }
    listed = {
        (table.name, column): treatment
        for table in canonical_tables().values()
        for column, treatment in table.privacy.items()
    }
    assert set(listed) == there
    assert set(listed.values()) == set(COLUMN_POLICIES)


ORDINARY = [
    "aten::conv2d, seq = 4, op_id = 9, sizes = [[2, 3, 8, 8], [4, 3, 3, 3]]",
    "/layer1/layer1.0/conv1/Conv + /layer1/layer1.0/relu/Relu",
    "/home/Gemm", "/users/embedding/Gather",
    "Reformatting CopyNode for Input Tensor 0 to /conv1/Conv + /relu/Relu",
    "autograd::engine::evaluate_function: ConvolutionBackward0",
    "{'mod': 'Tensor', 'op': 'float', 'args': [{'name': '', 'type': 'tensor', 'shape': (2, 3)}]}",
    "{'traceMarker': ['train.py:12', 'nn/linear.py:7'], 'funcStack': '/<module>/Net::f/relu'}",
    "layer:block1.token_embedding", "layer:attn/key/proj", "layer:auth::scope", "token: 5/128",
    "prefill token=17", "iteration 3", "Step 1 to 44", "## Call CompiledFxGraph fkey123 ##",
    "cuDNN 8.9.7.29", "CUDA 10.1.243", "nccl:all_reduce", "byte/s", "python m3.1.py 100",
    "pt_nccl_watchdg", "[NSys Comms]", "conv@fp16", "resnet50/stage1/unit2", "forward pass: 3",
    "Backward pass: block 3 of 4", "pass=12",
    "the file is a slice (155330248986-156330248986 ns)", "a/b.py", "http://127.0.0.1:80/x",
    "operator/(float, float)", "secret::kernel<int>", "cuda::std::tuple", "…/nn/linear.py:7", "~",
    "fad::bee(ada::fe80)", "at 12:34:56", "user=3 node=17", "ratio 1:2:3", "0a-1b-2c", "MIG-1g.5gb",
]  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_stay(text: str) -> None:
    assert redacted(text) == text


PRIVATE = {
    # homes and paths
    "/home/alice/data/train.rec": "~/…/train.rec",
    "/home/alice": "~",
    "/Users/Alice/x.bin": "~/x.bin",
    "/root/x.bin": "~/x.bin",
    "/global/homes/j/jane/x.bin": "~/x.bin",
    "C:\\Users\\Alice\\work\\x.bin": "~/…/x.bin",
    "PATH=/usr/bin:/home/alice/bin:/home/bobby/bin": "PATH=/usr/bin:~/bin:~2/bin",
    "read /mnt/ssd/secret-project/shard-001.tar": "read …/shard-001.tar",
    # source files keep the last directory and the line
    "/home/alice/proj/net.py:12": "…/proj/net.py:12",
    "/home/alice/net.py:12": "~/net.py:12",
    "/opt/conda/lib/python3.8/site-packages/torch/nn/modules/conv.py:399": "…/modules/conv.py:399",
    "src/models/net.py": "…/models/net.py",
    "{'traceMarker': ['/pscratch/sd/j/jane/t.py:3', 'main.py:1']}":
        "{'traceMarker': ['…/user1/t.py:3', 'main.py:1']}",
    # names
    f"{USER} started it on lab-node-17": "user1 started it on host1",
    f"step_of_{USER}_7": "step_of_user1_7",
    "USER=bob": "USER=user1",
    "mail alice.b@cs.example.edu": "mail user1@host1",
    "tcp://node3.cluster:29500": "tcp://host1:29500",
    "init 192.168.3.14": "init host1",
    "peer 140.82.121.4:443": "peer host1:443",
    "at ip-172-31-27-126": "at host1",
    "ssh://carla@node4/x": "ssh://user1@host1/x",
    "run as user=carla on node=lab7": "run as user=user1 on node=host1",
    "SLURM_JOB_USER=carla SLURMD_NODENAME=lab7": "SLURM_JOB_USER=user1 SLURMD_NODENAME=host1",
    "master [fd00:12:34::9]:29500": "master [host1]:29500",
    "addr fe80::1ff:fe23:4567:890a%eth0": "addr host1",
    "nic 02:42:ac:11:00:9f up": "nic host1 up",
    "on GPU-12345678-aaaa-bbbb-cccc-1234567890ab": "on gpu1",
    r"open \\\\fileserver\share\x.bin": "open …/x.bin",
    "/tmp/carla-run/train.py:12": "…/train.py:12",
    "/mnt/project/src/net.py": "…/src/net.py",
    # secrets
    "WANDB_API_KEY=0123456789abcdef": "WANDB_API_KEY=***",
    "python t.py --hf-token abcdefgh --lr 1": "python t.py --hf-token *** --lr 1",
    "clone https://me:pass1234@example.org/x": "clone https://***@host1/x",
    "use ghp_" + 36 * "a": "use ***",
    "post https://hooks.slack.com/services/T1/B2/" + 24 * "x": "post ***",
    "-----BEGIN RSA PRIVATE KEY----- MIIEpA -----END RSA PRIVATE KEY----- next": "*** next",
    "-----BEGIN PRIVATE KEY----- MIIEpA and no end": "***",
    "AccountName=x;AccountKey=" + 20 * "k" + "==;": "AccountName=x;AccountKey=***;",
    "key AIza" + 35 * "b": "key ***",
    # values of arguments, not types or shapes
    "{'mod': 'torch', 'op': 'dropout', 'args': [{'name': 'p', 'type': 'float', 'value': 0.2}]}":
        "{'mod': 'torch', 'op': 'dropout', 'args': [{'name': 'p', 'type': 'float'}]}",
    "{'mod': 'torch', 'op': 'mul', 'args': [{'name': '', 'type': 'float', 'value': inf}]}":
        "{'mod': 'torch', 'op': 'mul', 'args': …",
}  # fmt: skip


@pytest.mark.parametrize("text", PRIVATE)
def test_private_texts_are_replaced(text: str) -> None:
    assert redacted(text) == PRIVATE[text]


@pytest.mark.parametrize("text", PRIVATE)
def test_all_of_it_can_be_kept(text: str) -> None:
    assert redacted(text, *KINDS) == text


@pytest.mark.parametrize(
    ("kind", "text", "kept"),
    [
        ("secrets", "TOKEN=abcdefgh by /home/alice", "TOKEN=abcdefgh by ~"),
        ("hosts", f"{USER}@lab-node-17.physics.example.org", f"user1@{HOST}"),
        ("users", f"/home/alice/x by {USER}", f"~/x by {USER}"),
        ("paths", "/home/alice/x/y", "/home/user1/x/y"),
        ("paths", "/home/alice/a/b/net.py", "…/b/net.py"),
        ("source-paths", "/home/alice/a/b/net.py", "~/a/b/net.py"),
        ("source-paths", "src/models/net.py", "src/models/net.py"),
        ("kernel-arguments", "{'args': [{'value': 3}]}", "{'args': [{'value': 3}]}"),
    ],
)  # fmt: skip
def test_one_kind_can_be_kept(kind: str, text: str, kept: str) -> None:
    assert redacted(text, kind) == kept


def test_names_are_not_replaced_inside_words() -> None:
    for name in ("net", "alice", "train", "conv"):
        known = f"/home/{name}/x"
        for word in ("resnet", "malice", "retrain", "conv2d", "subnet.train1"):
            assert redacted(word, knowing=known) == word


def test_short_and_ordinary_names_are_replaced_in_paths_alone() -> None:
    for name in ("net", "train", "ubuntu"):
        known = f"/home/{name}/x"
        assert redacted(f"{name} {name}.forward", knowing=known) == f"{name} {name}.forward"
        assert redacted(f"/opt/x/{name}/run.py", knowing=known) == "…/user1/run.py"
    assert redacted("alice.forward", knowing="/home/alice/x") == "user1.forward"


def test_the_home_of_this_machine_may_be_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/staff/jw")
    assert redacted("/staff/jw/a/x.bin, /staff/jw2/x") == "~/…/x.bin, /staff/jw2/x"


def test_the_host_of_this_machine_is_known_without_its_domain() -> None:
    for name in (HOST, HOST.partition(".")[0]):
        assert "lab-node-17" not in redacted(f"ran on {name} at night")


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(UsageError, match="--keep passwords: no such kind; choose from secrets, "):
        parse_keep(["hosts", "passwords"])
    assert parse_keep(["all"]).keep == set(KINDS)
    assert parse_keep([]) == Redaction()


WORDS = st.sampled_from(
    [*ORDINARY, *PRIVATE, USER, HOST, "Lab-Node-17", "user1", "~/", "…", "***", "é", "/", ":", "="]
)  # fmt: skip
TEXTS = st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=6).map(" ".join)


@pytest.mark.slow
@given(TEXTS)
def test_what_changes_is_found_in_sql(text: str) -> None:
    """Millions of texts are searched with one expression: it must miss none."""
    with pytest.MonkeyPatch.context() as patch:
        _be_the_machine(patch)
        redactor = Redactor()
        redactor.collect_identities(text)
        changes = redactor.text(text, lambda *_: None) != text
        pattern = "|".join([CANDIDATE, *map(re.escape, redactor.names.words)])
        ((found,),) = duckdb.execute("SELECT regexp_matches(?, ?)", [text, pattern]).fetchall()
        assert found or not changes


@pytest.mark.slow
@given(TEXTS)
def test_what_is_redacted_stays_so(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _be_the_machine(patch)
        redactor = Redactor()
        redactor.collect_identities(text)
        once = redactor.text(text, lambda *_: None)
        again: list[tuple[str, str]] = []
        assert redactor.text(once, lambda *found: again.append(found)) == once
        assert not again


@pytest.mark.slow
@given(st.sets(st.from_regex(r"[a-z]{6,12}", fullmatch=True), min_size=2), st.sampled_from(
    ["{} starts", "tcp://{}:29500/x", "USER={}", "HOSTNAME={}", "{}@example.org", "/home/{}"]
))  # fmt: skip
def test_different_names_stay_different(names: set[str], form: str) -> None:
    redactor = Redactor()
    texts = [form.format(name) for name in sorted(names)]
    for name in names:
        redactor.collect_identities(f"/home/{name}/x")
    results = [redactor.text(text, lambda *_: None) for text in texts]
    assert len(set(results)) == len(texts)
    assert not [name for name in names if name in " ".join(results).replace("starts", "")]


MARKER = (
    "{'mod': 'torch', 'op': 'conv2d', 'args': [{'name': '', 'type': 'int', 'value': 12345678}]}"
)
TOKEN = "hf_" + 30 * "z"
LAYER = "encoder.alice-block.0"


@pytest.fixture
def trace() -> Iterator[duckdb.DuckDBPyConnection]:
    made = MadeTrace()
    made.add_trace(
        name="alice/timeline.sqlite",
        path="/home/alice/runs/timeline.sqlite",
        capture=json.dumps({"model": "cnn", "notice": f"by {USER}", "batch_size": 32}),
        capture_id="run-of-alice",
        notes=["2 processes used GPUs", "nsys: cannot open /home/alice/x.cfg"],
    )
    made.add("process", process_id=1, pid=1, name="/home/alice/venv/bin/python")
    made.add("thread", process_id=1, thread_id=1, name="python")
    made.add("device", device_id=0, uuid="a4cc4c8e-c468-e496-9329-72c1128d6bdd", name="TITAN V")
    made.add("device", device_id=1, uuid="00000000-0000-0000-0000-000000000000", name="TITAN V")
    made.add("layer_definition", layer=LAYER, position=0, layer_type="Conv2d")
    texts = [f"layer:{LAYER}", MARKER, "iteration 1", None, "api_key=abcdefgh", f"layer:{LAYER}"]
    for number, text in enumerate(texts):
        made.add(
            "annotation", annotation_id=number, source="nvtx", start_ns=number, end_ns=number + 1,
            is_open=False, kind="push_pop", domain_id=0, text=text,
        )  # fmt: skip
    made.add_kernel(0, 10, name="alice_gemm(float*, int)", short_name="alice_gemm")
    made.add_kernel(20, 30, name=f'run("{TOKEN} for dora@lab.example.org")', short_name="run")
    with made.connect() as database:
        yield database.connection


def tables(connection: duckdb.DuckDBPyConnection, redactor: TableRedactor) -> dict[str, list[Any]]:
    """Return the rows of all canonical tables after redaction; columns and types stay."""
    rows = {}
    for table in canonical_tables():
        relation = f"SELECT * FROM {table}"
        select = redactor.select(table, relation)
        assert connection.sql(select).description == connection.sql(relation).description
        rows[table] = connection.execute(f"SELECT * FROM ({select}) ORDER BY ALL").fetchall()
        assert len(rows[table]) == len(connection.execute(relation).fetchall())
    return rows


def column(connection: duckdb.DuckDBPyConnection, select: str, name: str, order: str) -> list[Any]:
    rows = connection.execute(f"SELECT {name} FROM ({select}) ORDER BY {order}").fetchall()
    return [row[0] for row in rows]


@pytest.mark.slow
def test_tables_hold_nothing_private(trace: duckdb.DuckDBPyConnection) -> None:
    redactor = TableRedactor(trace)
    kept = repr(tables(trace, redactor))
    for private in (
        "/home",
        "api_key=abcdefgh",
        "12345678",
        USER,
        "a4cc4c8e",
        "/runs",
        "venv",
        TOKEN,
        "dora",
    ):
        assert private not in kept
    # a kernel's name is code
    assert kept.count("alice") == 2
    assert kept.count("alice_gemm") == 2


def test_rows_are_replaced_one_by_one(trace: duckdb.DuckDBPyConnection) -> None:
    redactor = TableRedactor(trace)
    ranges = redactor.select("annotation", "SELECT * FROM annotation")
    layers = redactor.select("layer_definition", "SELECT * FROM layer_definition")
    (layer,) = column(trace, layers, "layer", "position")
    assert layer == "encoder.user1-block.0"
    assert column(trace, ranges, "text", "annotation_id") == [
        f"layer:{layer}",
        "{'mod': 'torch', 'op': 'conv2d', 'args': [{'name': '', 'type': 'int'}]}",
        "iteration 1",
        None,
        "api_key=***",
        f"layer:{layer}",
    ]
    devices = redactor.select("device", "SELECT * FROM device")
    assert column(trace, devices, "uuid", "device_id") == [
        "gpu1",
        "00000000-0000-0000-0000-000000000000",
    ]
    described = redactor.select("trace", "SELECT * FROM trace")
    assert column(trace, described, "name", "1") == ["user1/timeline.sqlite"]
    assert column(trace, described, "path", "1") == ["…/timeline.sqlite"]
    assert column(trace, described, "capture_id", "1") == ["run-of-user1"]
    assert column(trace, described, "notes", "1") == [
        ["2 processes used GPUs", "nsys: cannot open ~/x.cfg"]
    ]
    (capture,) = column(trace, described, "capture", "1")
    assert json.loads(capture) == {"model": "cnn", "notice": "by user2", "batch_size": 32}


def test_changed_texts_are_counted(trace: duckdb.DuckDBPyConnection) -> None:
    redactor = TableRedactor(trace)
    redactor.select("annotation", "SELECT * FROM annotation")
    assert redactor.counts == {"users": 1, "kernel-arguments": 1, "secrets": 1}
    redactor.select("device", "SELECT * FROM device")
    assert redactor.counts["device-ids"] == 1


def test_nothing_changes_where_all_is_kept(trace: duckdb.DuckDBPyConnection) -> None:
    redactor = TableRedactor(trace, parse_keep(["all"]))
    for table in canonical_tables():
        assert redactor.select(table, f"FROM {table}") == f"FROM {table}"
    assert not redactor.counts


def test_what_would_leak_from_tables_is_listed(trace: duckdb.DuckDBPyConnection) -> None:
    listed = leaks_in_tables(trace)
    places = {(kind, where): count for kind, where, count, _ in listed.rows()}
    assert places == {
        ("secrets", "annotation.text"): 1,
        ("users", "layer_definition.layer"): 1,
        ("users", "annotation.text"): 2,
        ("users", "trace.capture"): 1,
        ("users", "trace.capture_id"): 1,
        ("users", "trace.name"): 1,
        ("paths", "process.name"): 1,
        ("paths", "trace.notes"): 1,
        ("paths", "trace.path"): 1,
        ("kernel-arguments", "annotation.text"): 1,
        ("device-ids", "device.uuid"): 1,
        ("secrets", "kernel.name"): 1,
        ("users", "kernel.name"): 1,
        ("hosts", "kernel.name"): 1,
    }
    for private in ("alice", "abcdefgh", "12345678", USER, "timeline"):
        assert private not in repr(listed["example"].to_list())


@pytest.mark.slow
def test_nothing_is_listed_after_redaction(trace: duckdb.DuckDBPyConnection) -> None:
    redactor = TableRedactor(trace)
    with duckdb.connect() as after:
        for table in canonical_tables():
            frame = trace.sql(redactor.select(table, f"FROM {table}")).arrow()
            after.register("frame", frame)
            after.execute(f"CREATE TABLE {table} AS FROM frame")
        assert leaks_in_tables(after).rows() == []


def test_documents() -> None:
    with duckdb.connect() as connection:
        redactor = TableRedactor(connection)
        document = {
            "model": "resnet50",
            "host": "alpha",
            "user": "carol",
            "env": {"HOME": "/home/carol"},
            "throughput": {"samples_per_second": 12.5, "iteration_ns": [1, 2, 3]},
            "command": [
                "python",
                "/home/carol/a/b/train.py",
                "--token",
                "abc",
                "--host=alpha",
                "-n",
                "3",
            ],
            "notice": "carol on alpha",
            "wandb_api_key": "abcdef",
            "tokens": 12,
            "files": [{"file": "timeline.sqlite", "tool": "nsys", "environment": "A=b"}],
        }
        before = json.dumps(document)
        assert redactor.document(document) == {
            "model": "resnet50",
            "host": "host1",
            "user": "user1",
            "throughput": {"samples_per_second": 12.5, "iteration_ns": [1, 2, 3]},
            "command": ["python", "…/b/train.py", "--token", "***", "--host=host1", "-n", "3"],
            "notice": "user1 on host1",
            "wandb_api_key": "***",
            "tokens": 12,
            "files": [{"file": "timeline.sqlite", "tool": "nsys"}],
        }
        assert json.dumps(document) == before
        kept = TableRedactor(connection, parse_keep(["all"]))
        assert kept.document(document) == document


def test_the_page_has_every_kind() -> None:
    page = (ROOT / "docs" / "how_to" / "redaction.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w -]+)` \|", page, re.MULTILINE)
    assert listed[: len(KINDS)] == list(KINDS)
    assert set(listed) == set(FILE_KINDS)


ASCII = st.characters(min_codepoint=32, max_codepoint=126)


@pytest.mark.parametrize("pattern", _token_patterns(), ids=lambda pattern: pattern.pattern[:24])
@settings(max_examples=5)
@given(data=st.data())
def test_every_token_is_found(pattern: re.Pattern[str], data: st.DataObject) -> None:
    """Texts are searched for tokens only where TOKEN_CANDIDATE matches."""
    token = data.draw(st.from_regex(pattern, alphabet=ASCII))
    assert re.search(TOKEN_CANDIDATE, token)
    (found,) = duckdb.execute("SELECT regexp_matches(?, ?)", [token, TOKEN_CANDIDATE]).fetchall()
    assert found == (True,)
    assert not pattern.search(text_without_secrets(token))
