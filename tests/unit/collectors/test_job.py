"""Options of ``collect --ranks``, and how its parts read their input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import tbd_trace
from made_kineto import document, event, operator, write
from tbd_collectors import network_namespaces, rank_launch
from tbd_collectors.job import speedups
from tbd_collectors.network_namespaces import Link, enter_user_namespace, rates, seconds
from tbd_models.definition import UnsupportedError
from tbd_models.layer_list import TimedLayer, read_layers
from tbd_trace.cli.main import app
from tbd_trace.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1gbit", [1e9]),
        ("0.3gbit,1gbit, 3Gbit", [0.3e9, 1e9, 3e9]),
        ("250mbit", [2.5e8]),
        ("100kbit", [1e5]),
    ],
)
def test_rates(text: str, expected: list[float]) -> None:
    assert rates(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "1", "1gb", "-1gbit", "0gbit", "1bit", "1gbit,1000mbit"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--bandwidth"):
        rates(text)


@given(st.integers(1, 10**6))
def test_times_are_seconds(number: int) -> None:
    assert seconds(f"{number}us") == pytest.approx(number * 1e-6)
    assert seconds(f"{number}ms") == pytest.approx(number * 1e-3)
    assert seconds(f"{number}s") == number


def test_a_link_is_named_by_its_rate() -> None:
    assert [Link(rate).title for rate in (3e8, 1e9, None)] == ["0.3gbit", "1gbit", "unlimited"]


OTHER = ["--python", sys.executable, "--framework"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bandwidth", "1gbit", "resnet50"], "add --ranks N"),
        (["--latency", "1ms", "resnet50"], "add --ranks N"),
        (["--scheme", "ps", "resnet50"], "add --ranks N"),
        (["--ranks", "2", "--scheme", "ps", "--", "true", "x"], "--scheme is for workloads"),
        (["--scheme", "fsdp", "llm"], "add --ranks N"),
        (["--ranks", "2", "--latency", "1ms", "resnet50"], "--latency needs --bandwidth"),
        (["--ranks", "2", "--bandwidth", "fast", "resnet50"], "--bandwidth 'fast'"),
        (["--ranks", "2", "--memory", "resnet50"], "leave out --memory"),
        (["--ranks", "2", "--scheme", "dist_sync", "resnet50"], "use ddp, fsdp, ps, p3"),
        (["--ranks", "2", "--scheme", "ddp", *OTHER, "tensorflow", "resnet50"], "use serial"),
        (["--ranks", "2", "--scheme", "ps", *OTHER, "mxnet", "resnet50"], "use dist_sync"),
        (["--ranks", "2", "--batch-size", "1,2", "resnet50"], "one model and batch size"),
        (["--ranks", "2", "--profiler", "nvprof", "resnet50"], "nvprof records no ranks"),
        (["--layers", "layers.csv", "resnet50"], "--layers stands in for a model"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: list[str], message: str, elsewhere: Path
) -> None:
    done = CliRunner().invoke(app, ["collect", "--device", "cpu", *words])
    assert done.exit_code == 2, done.output
    assert message in str(done.exception or "") + done.output
    assert not list(elsewhere.glob("resnet50*"))


def test_without_root_and_user_namespaces_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert argv[0] == "unshare"
        return subprocess.CompletedProcess(argv, 1, "", "unshare: Operation not permitted\n")

    monkeypatch.setattr(network_namespaces.shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(network_namespaces.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(network_namespaces.subprocess, "run", refused)
    with pytest.raises(UsageError, match=r"needs root.*Operation not permitted"):
        enter_user_namespace()


def test_without_iproute2_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_namespaces.shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match="install iproute2"):
        enter_user_namespace()


def test_ranks_know_the_addresses_of_all_in_each_run() -> None:
    started = rank_launch.launches(3, 2)
    seen = []
    for run in range(2):
        configs = [json.loads(launch.environment(run)["TF_CONFIG"]) for launch in started]
        assert [config["task"] for config in configs] == [
            {"type": "worker", "index": rank} for rank in range(3)
        ]
        (workers,) = {tuple(config["cluster"]["worker"]) for config in configs}
        for launch in started:
            environment = launch.environment(run)
            first = f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"
            assert first == workers[0]
        seen += workers
    assert len(set(seen)) == 6


def test_the_rank_with_its_own_error_failed_first(tmp_path: Path) -> None:
    """Ranks that lose the connection to it may end a moment before."""
    logs = [tmp_path / f"{rank}.log" for rank in range(4)]
    logs[0].write_text("RuntimeError: Connection closed by peer [127.0.0.1]:4", encoding="utf-8")
    logs[1].write_text("ValueError: no such layer", encoding="utf-8")
    logs[2].write_text("RuntimeError: Connection reset by peer", encoding="utf-8")
    logs[3].write_text("Collective ops is aborted by: Socket closed", encoding="utf-8")
    first = rank_launch._first({0: 5.0, 1: 5.3, 2: 5.1, 3: 5.2}, lambda rank: logs[rank])
    assert first == 1
    assert rank_launch._first({0: 5.0, 1: 9.0}, lambda rank: logs[rank]) == 0
    assert rank_launch._first({}, lambda rank: logs[rank]) is None


def test_the_speedup_is_relative_to_the_quietest_single_rank() -> None:
    points: list[dict[str, object]] = [
        {"world_size": 1, "quietest_s": 0.11},
        {"world_size": 4, "quietest_s": 0.2},
        {"world_size": 4},
        {"world_size": 1, "quietest_s": 0.1},
    ]
    speedups(points, 4)
    assert [point.get("speedup") for point in points] == [None, pytest.approx(2.0), None, None]


def test_a_list_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text("name,fwd_s,bwd_s,grad_bytes\nconv,0.01,2e-2,400\n", encoding="utf-8")
    assert read_layers(path) == (TimedLayer("conv", 0.01, 0.02, 400),)


@pytest.mark.parametrize(
    "row",
    ["conv,0.01,0.02", "conv,x,0.02,4", "conv,0.01,nan,4", "conv,-1,0.02,4", "conv,1,1,6",
     "conv,1,1,-4", "conv,1,1,0"],
)  # fmt: skip
def test_other_lists_are_refused(row: str, tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text(f"name,fwd_s,bwd_s,grad_bytes\n{row}\n", encoding="utf-8")
    with pytest.raises(UnsupportedError, match=r"layers\.csv"):
        read_layers(path)


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
def test_ranges_of_buckets_are_records_beside_those_of_gloo(tmp_path: Path) -> None:
    """They overlap other ranges of the thread, so they are no part of its tree."""
    text = "all_reduce, bytes = 4096, bucket = 3"
    events = [
        event("user_annotation", "ProfilerStep#0", 0, 100),
        event("user_annotation", text, 10, 60),
        event("user_annotation", "all_reduce, bytes = many, bucket = 1", 10, 60),
        event("user_annotation", "gloo:all_reduce", 20, 30),
        operator("aten::mm", 40, 90),
    ]
    path = write(tmp_path / "rank0.json", document(events))
    traces = tbd_trace.open(path)
    rows = traces.sql(
        "SELECT source, kind, bytes, bucket, end_ns - start_ns FROM collective_record ORDER BY ALL"
    ).rows()
    assert rows == [
        ("bucket", "all_reduce", 4096, 3, 60_000),
        ("gloo", "all_reduce", None, None, 30_000),
    ]
    kinds = dict(traces.sql("SELECT text, kind FROM annotation").iter_rows())
    assert (kinds[text], kinds["gloo:all_reduce"]) == ("start_end", "push_pop")
