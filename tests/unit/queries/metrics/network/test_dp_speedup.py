"""dp_speedup, min_bandwidth and comm_overhead against a model that follows every message."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from fast import examples
from network_model import (
    TOY,
    Layer,
    Link,
    buckets,
    iteration_s,
    speedup,
    transfer_s,
    write_layers,
)
from tbd_trace.cli.main import app
from tbd_trace.errors import UsageError
from tbd_trace.query import Catalogue, execute_on_file

SCHEMES = ("ddp", "serial", "ps", "p3", "fsdp")
NET = [
    Layer("conv1", 0.003, 0.007, 90e3),
    Layer("relu", 0.001, 0.001, 0),
    Layer("conv2", 0.005, 0.011, 700e3),
    Layer("conv3", 0.006, 0.013, 3.1e6),
    Layer("fc1", 0.002, 0.004, 11e6),
    Layer("fc2", 0.002, 0.003, 4.7e6),
]
"""Gradients first small, then large; one layer has none."""


def asked(name: str, path: Path, **parameters: object) -> list[dict[str, Any]]:
    texts = {key: str(value) for key, value in parameters.items()}
    result = execute_on_file(Catalogue().get(name), {"layers": str(path), **texts})
    assert result is not None
    return result.frame.to_dicts()


def tolerance(row: dict[str, Any], link: Link) -> float:
    """Return how far a prediction may be from the simulation, in seconds."""
    if row["scheme"] != "p3":
        return 1e-9
    # Slices are equal in the query; a push and a pull of one may lie elsewhere.
    return transfer_s(link.slice_bytes, row["workers"], link) + 2 * link.latency_s + 1e-9


def test_two_workers_at_one_gbit(tmp_path: Path) -> None:
    """All gradients, 444 MB, take 3.552 s; the last layer's are ready after 4 ms of backward."""
    path = write_layers(tmp_path / "toy.csv", TOY)
    rows = asked("dp_speedup", path, workers=2, bandwidth_gbit=1, latency_s=5e-6)
    found = {row["scheme"]: row["iteration_s"] for row in rows}
    assert found == pytest.approx(
        {
            "ddp": 0.022 + 0.004 + 3.552 + 3 * 2 * 5e-6,  # 3 buckets, 2 hops each
            "serial": 0.066 + 3.552 + 3 * 2 * 5e-6,
            "ps": 0.022 + 0.004 + 3.552 + 5e-6,  # the last pull arrives after its latency
            "p3": 0.002 + 0.004 + 3.552 + 5e-6,  # only the last layer waits for the last slice
            # Gathers take 16, 160 and 1,600 ms; computation hides behind all but the first, and
            # the last layer waits for its gather. Then the link is busy until the end.
            "fsdp": 0.016
            + 0.160
            + 1.600
            + 0.002
            + 1.600
            + 0.160
            + 1.600
            + 0.016
            + 0.160
            + 0.016
            + 9 * 5e-6,
        },
        abs=1e-9,
    )
    (ddp,) = (row for row in rows if row["scheme"] == "ddp")
    assert ddp["exposed_s"] == pytest.approx(3.51203)
    assert ddp["speedup"] == pytest.approx(2 * 0.066 / 3.57803)
    assert ddp["efficiency"] == pytest.approx(0.066 / 3.57803)
    assert (ddp["limited_by"], ddp["evidence"], ddp["inputs"]) == ("link", "modelled", "layer list")


@pytest.mark.slow
def test_the_toy_model_is_exact_in_each_scheme(tmp_path: Path) -> None:
    path = write_layers(tmp_path / "toy.csv", TOY)
    rows = asked("dp_speedup", path, workers="1,2,4,8,16", bandwidth_gbit="1,5,10,25,100,400")
    assert len(rows) == 5 * 6 * 5
    for row in rows:
        link = Link(row["bandwidth_gbit"], 5e-6)
        expected = iteration_s(TOY, row["workers"], link, row["scheme"])
        assert row["iteration_s"] == pytest.approx(expected, abs=1e-9), row


LINKS = [
    (Link(1), {"latency_s": 0}),
    (Link(1, 5e-6, all_reduce_s=1e-4, efficiency=0.957, tail_s=0.004),
     {"all_reduce_s": 1e-4, "link_efficiency": 0.957, "tail_s": 0.004}),
    (Link(1, 2e-5, host_bytes_per_s=4e8, optimizer_s=0.002),
     {"latency_s": 2e-5, "host_bytes_per_s": 4e8, "optimizer_s": 0.002}),
    (Link(1, 0, first_bucket_bytes=5e6, bucket_bytes=5e6),
     {"latency_s": 0, "first_bucket_bytes": 5_000_000, "bucket_bytes": 5_000_000}),
]  # fmt: skip


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize(("link", "parameters"), LINKS)
def test_every_term_of_the_link_counts(
    tmp_path: Path, link: Link, parameters: dict[str, object], workers: int
) -> None:
    path = write_layers(tmp_path / "net.csv", NET)
    rows = asked("dp_speedup", path, workers=workers, bandwidth_gbit="0.3,3,30", **parameters)
    for row in rows:
        at = Link(**{**vars_of(link), "gbit_s": row["bandwidth_gbit"]})
        expected = iteration_s(NET, workers, at, row["scheme"])
        assert row["iteration_s"] == pytest.approx(expected, abs=tolerance(row, at)), row
        if row["scheme"] != "p3":
            assert row["speedup"] == pytest.approx(speedup(NET, workers, at, row["scheme"]))


def vars_of(link: Link) -> dict[str, Any]:
    return {name: getattr(link, name) for name in link.__dataclass_fields__}


def test_the_band_is_that_of_a_slower_and_a_faster_link(tmp_path: Path) -> None:
    path = write_layers(tmp_path / "net.csv", NET)
    (row,) = asked(
        "dp_speedup", path, workers=4, bandwidth_gbit=2, scheme="ddp", uncertainty_pct=20
    )
    slow, fast = (speedup(NET, 4, Link(2 * f, 5e-6), "ddp") for f in (0.8, 1.2))
    assert (row["speedup_low"], row["speedup_high"]) == pytest.approx((slow, fast))


def test_buckets_depend_on_the_first_limit() -> None:
    assert [size for _, size in buckets(NET, Link(1))] == [4.7e6, 14.89e6]
    assert len(buckets(NET, Link(1, first_bucket_bytes=25 * 2**20))) == 1


@pytest.mark.slow
def test_smallest_bandwidth_of_full_overlap_by_hand(tmp_path: Path) -> None:
    """One layer of 8 Mbit: with two workers, 8 ms ÷ B (Gbit/s) follow forward and backward."""
    path = write_layers(tmp_path / "one.csv", [Layer("fc", 0.01, 0.02, 1e6)])
    rows = asked("min_bandwidth", path, workers="1,2", target_speedup="1.5,2", latency_s=0)
    found = {(r["workers"], r["target_speedup"], r["scheme"]): r for r in rows}
    assert len(found) == 2 * 2 * 5
    for scheme in SCHEMES[:4]:
        # 2 * 30 ms ÷ 1.5 = 40 ms: 10 ms are left for 8 ms ÷ B
        assert found[2, 1.5, scheme]["min_gbit_s"] == pytest.approx(0.8, rel=1e-6)
        assert found[2, 2.0, scheme]["min_gbit_s"] is None
        assert "first layer" in found[2, 2.0, scheme]["reason"]
        assert "1 workers are at most 1 times" in found[1, 1.5, scheme]["reason"]
    row = found[2, 1.5, "ddp"]
    assert row["no_overlap_gbit_s"] == pytest.approx(0.8)
    assert row["full_overlap_gbit_s"] == pytest.approx(0.8)
    assert row["min_low_gbit_s"] == pytest.approx(0.8 / 1.05)
    assert row["min_high_gbit_s"] == pytest.approx(0.8 / 0.95)


@pytest.mark.slow
def test_the_host_can_make_every_bandwidth_too_small(tmp_path: Path) -> None:
    path = write_layers(tmp_path / "one.csv", [Layer("fc", 0.01, 0.02, 1e6)])
    for row in asked("min_bandwidth", path, workers=2, target_speedup=1.5, host_bytes_per_s=9e7):
        assert row["min_gbit_s"] is None  # 1 MB takes 11 ms, longer than the 10 ms left
        assert "host_bytes_per_s" in row["reason"]


@pytest.mark.slow
def test_one_worker_needs_no_network(tmp_path: Path) -> None:
    path = write_layers(tmp_path / "net.csv", NET)
    for row in asked("min_bandwidth", path, workers=1, target_speedup="0.5,1"):
        assert (row["min_gbit_s"], row["reason"]) == (0, None)


LAYERS = st.lists(
    st.builds(
        Layer,
        st.just("layer"),
        st.floats(1e-4, 0.01),
        st.floats(1e-4, 0.02),
        st.one_of(st.just(0.0), st.floats(1e3, 1e6), st.floats(1e6, 1e7)),
    ),
    min_size=1,
    max_size=9,
)


# With P3, two workers are 1.6993 or 1.7054 times as fast: none of them 1.7 times.
JUMP = [
    Layer("layer", 0.005812108349458639, 0.019332005581789012, 893211.0),
    Layer("layer", 0.006512053371785805, 0.005859375, 4655612.0),
    Layer("layer", 0.008699011432755107, 0.001953125, 1074110.0),
]


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(layers=LAYERS, latency_s=st.sampled_from([0, 5e-6, 1e-4]), workers=st.integers(2, 9))
def test_properties_of_predictions(
    tmp_path_factory: pytest.TempPathFactory, layers: list[Layer], latency_s: float, workers: int
) -> None:
    path = write_layers(tmp_path_factory.mktemp("layers") / "own.csv", layers)
    rows = asked(
        "dp_speedup", path, workers=f"1,{workers}", bandwidth_gbit="0.5,3,3.3,20,90",
        latency_s=latency_s,
    )  # fmt: skip
    found = {(r["scheme"], r["workers"], r["bandwidth_gbit"]): r for r in rows}
    compute = sum(layer.forward_s + layer.backward_s for layer in layers)
    slower: dict[str, float] = {}
    for (scheme, count, gbit_s), row in found.items():
        link = Link(gbit_s, latency_s)
        near = tolerance(row, link)
        assert row["iteration_s"] == pytest.approx(
            iteration_s(layers, count, link, scheme), abs=near
        )
        if count == 1:
            assert row["iteration_s"] == pytest.approx(compute)
            assert row["speedup"] == pytest.approx(1)
            continue
        assert row["iteration_s"] <= slower.get(scheme, math.inf) + near
        slower[scheme] = row["iteration_s"]
    for gbit_s in {key[2] for key in found}:
        times = {s: found[s, workers, gbit_s]["iteration_s"] for s in SCHEMES}
        moved = 1.5 * transfer_s(sum(a.gradient_bytes for a in layers), workers, Link(gbit_s))
        assert times["fsdp"] >= max(compute, moved) * (1 - 1e-12)
        assert times["p3"] <= times["ps"] + 1e-12
        assert times["ddp"] <= times["serial"] + 1e-12


@pytest.mark.slow
@settings(max_examples=examples(5))
@given(layers=LAYERS, latency_s=st.sampled_from([0, 5e-6]), workers=st.integers(2, 9))
@example(layers=JUMP, latency_s=5e-6, workers=2)
def test_smallest_bandwidth_inverts_the_speed_up(
    tmp_path_factory: pytest.TempPathFactory, layers: list[Layer], latency_s: float, workers: int
) -> None:
    path = write_layers(tmp_path_factory.mktemp("layers") / "own.csv", layers)
    common = {"workers": workers, "latency_s": latency_s}
    rows = asked("min_bandwidth", path, target_efficiency="0.3,0.85", **common)
    asked_for = [gbit_s for row in rows if (gbit_s := row["min_gbit_s"])]
    less_or_same = [gbit_s * factor for gbit_s in asked_for for factor in (1 - 1e-6, 1)]
    bandwidths = ",".join(map(repr, less_or_same or [1.0]))
    reached = {
        (row["scheme"], row["bandwidth_gbit"]): row["speedup"]
        for row in asked("dp_speedup", path, bandwidth_gbit=bandwidths, **common)
    }
    for row in rows:
        target, scheme, gbit_s = (row[key] for key in ("target_speedup", "scheme", "min_gbit_s"))
        if gbit_s is None:
            best = speedup(layers, workers, Link(1e9, latency_s), scheme)
            assert best < target * (1 + 1e-6)
        elif gbit_s == 0:
            assert not any(layer.gradient_bytes for layer in layers)
        else:
            assert reached[scheme, gbit_s * (1 - 1e-6)] < target
            assert reached[scheme, gbit_s] >= target * (1 - 1e-9)
            if scheme != "p3":  # whose speed-up jumps by the time of a slice
                assert reached[scheme, gbit_s] == pytest.approx(target, rel=1e-6)


def test_communication_of_each_layer(tmp_path: Path) -> None:
    path = write_layers(tmp_path / "net.csv", NET)
    rows = asked("comm_overhead", path, workers="1,4", bandwidth_gbit="1,10")
    assert len(rows) == len(NET) * 4
    by_name = {layer.name: layer for layer in NET}
    for row in rows:
        layer = by_name[row["layer"]]
        alone = transfer_s(layer.gradient_bytes, row["workers"], Link(row["bandwidth_gbit"]))
        if row["workers"] > 1 and layer.gradient_bytes:
            alone += 2 * 3 * 5e-6
        assert row["communication_s"] == pytest.approx(alone)
        assert row["ratio"] == pytest.approx(alone / (layer.forward_s + layer.backward_s))
        assert row["gradient_share_pct"] == pytest.approx(100 * layer.gradient_bytes / 19.59e6)
    ratios = [row["ratio"] for row in rows if (row["workers"], row["bandwidth_gbit"]) == (4, 1)]
    assert ratios == sorted(ratios, reverse=True)


HEADER = "name,fwd_s,bwd_s,grad_bytes\n"
BAD = {
    "name,fwd_s,bwd_s\na,1,1\n": "no column 'grad_bytes'",
    HEADER + "a,1,x,1\n": "bwd_s in row 1 is 'x'",
    HEADER + "a,1,1,1\nb,1,1,-2\n": "grad_bytes in row 2 is '-2'",
    HEADER + "a,1,1,nan\n": "grad_bytes in row 1 is 'nan'",
    HEADER + "a,1e999,1,1\n": "fwd_s in row 1",
    HEADER + ",1,1,1\n": "name in row 1 is nothing",
    HEADER + "a,1,1\n": "not a CSV file with the columns",
    HEADER: "no rows",
    "": "no column 'name'",
    HEADER + "a,1,1,1\n" * 100_001: "more than 100,000 rows",
}


@pytest.mark.parametrize(("text", "problem"), BAD.items(), ids=lambda value: value[:30])
def test_bad_layer_lists_are_told_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "layers.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=problem) as error:
        asked("dp_speedup", path)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{path}: ")


def test_a_layer_list_must_be_a_readable_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        asked("dp_speedup", tmp_path / "none.csv")
    with pytest.raises(UsageError, match="not a file"):
        asked("dp_speedup", tmp_path)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(UsageError, match=r"binary\.csv: "):
        asked("dp_speedup", binary)


@pytest.mark.slow
def test_the_command_needs_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_layers(tmp_path / "own layers.csv", NET)
    question = ["query", "dp_speedup", "--set", "layers=own layers.csv", "--set", "workers=2"]
    for form in ("table", "csv"):
        done = CliRunner().invoke(app, [*question, "--format", form])
        assert done.exit_code == 0
        assert "own layers" in done.output
    assert CliRunner().invoke(app, [*question, "--plot", "curve.svg"]).exit_code == 0
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    assert [path.name for path in tmp_path.glob("*.duckdb")] == []
    assert CliRunner().invoke(app, [*question, "some_trace"]).exit_code == 2
    assert CliRunner().invoke(app, [*question, "--set", "workers=2,0"]).exit_code == 2
    assert CliRunner().invoke(app, ["query", "dp_speedup", "--set", "layers=no"]).exit_code == 2
