"""All-reduces that ran, divided among the layers, with numbers worked out by hand."""

from __future__ import annotations

import pytest

from made_trace import MadeTrace, metric, relation
from made_trace import Row as Found

MS = 1_000_000  # ns
LAYERS = {"a": 1_000_000, "b": 3_000_000, "relu": 0}  # bytes of gradients
TWO = ((3_500_000, 35), (500_000, 10))  # bytes, ms: the first carries b and half of a


def rank(made: MadeTrace, trace: str, reduces: tuple[tuple[int, int], ...], number: int) -> None:
    """Add a rank of two: each layer has 1 ms of forward and 2 ms of backward kernels."""
    own = {"trace_id": trace}
    made.add_trace(trace, utc_start_ns=0)
    made.add("job_rank", job="run", rank=number, world_size=2, host="one", **own)
    for position, (layer, size) in enumerate(LAYERS.items()):
        made.add_layer(layer, position, gradient_bytes=size, **own)
    for iteration in range(8):
        at = iteration * 100 * MS
        made.add_range(at, at + 90 * MS, f"iteration {iteration}", **own)
        for phase, role, begin, took in (
            ("forward", "layer", at + MS, 1),
            ("backward", "layer_backward", at + 20 * MS, 2),
        ):
            made.add_range(begin, begin + 18 * MS, f"phase:{phase}", **own)
            for place, layer in enumerate(LAYERS):
                start = begin + (1 + 4 * place) * MS
                made.add_range(start, start + MS, f"{role}:{layer}", **own)
                made.launch(start + 1, start + 2, start + 2 + took * MS, **own)
        end = at + 25 * MS
        for bucket, (size, took_ms) in enumerate(reduces):
            text = f"all_reduce, bytes = {size}, bucket = {bucket}"
            made.add_range(end, end + took_ms * MS, text, kind="start_end", thread_id=9, **own)
            end += took_ms * MS


def measured(made: MadeTrace, **parameters: float) -> dict[str, Found]:
    rows = metric(made, "comm_overhead", by="measured", latency_s=0.0, **parameters)
    return {row["layer"]: row for row in rows}


@pytest.mark.slow
def test_an_all_reduce_is_divided_among_its_layers_by_bytes() -> None:
    made = MadeTrace()
    rank(made, "r", TWO, 0)
    found = measured(made, link_gbit=1.0)
    assert list(found) == ["b", "a", "relu"]
    taken = {layer: row["communication_s"] for layer, row in found.items()}
    assert taken == pytest.approx({"b": 0.030, "a": 0.005 + 0.010, "relu": 0})
    # Between two workers 8 ns per byte at 1 Gbit/s: 28 and 4 ms.
    modelled = {layer: row["modelled_s"] for layer, row in found.items()}
    assert modelled == pytest.approx({"b": 0.024, "a": 0.004 + 0.004, "relu": 0})
    assert found["b"]["deviation_pct"] == pytest.approx(25)
    assert found["b"]["ratio"] == pytest.approx(0.030 / 0.003)
    assert found["relu"]["deviation_pct"] is None
    about = ("workers", "bandwidth_gbit", "basis", "evidence", "reason")
    assert [found["a"][name] for name in about] == [2, 1, "duration", "measured", None]


@pytest.mark.slow
def test_the_link_of_the_run_counts_before_the_given_one() -> None:
    made = MadeTrace()
    rank(made, "r", TWO, 0)
    made.add("job_point", trace_id="r", point_id=1, is_own=True, scheme="ddp", world_size=2,
             iterations=8, bandwidth_bits_per_s=2e9, median_s=0.1, quietest_s=0.1)  # fmt: skip
    found = measured(made, link_gbit=1.0)
    assert {row["bandwidth_gbit"] for row in found.values()} == {2}
    assert found["b"]["modelled_s"] == pytest.approx(0.012)


@pytest.mark.slow
def test_the_lowest_rank_stands_for_its_job() -> None:
    """The transfer lasts from the last start to the first end, here those of the faster rank."""
    made = MadeTrace()
    rank(made, "r0", TWO, 0)
    rank(made, "r1", ((3_500_000, 28), (500_000, 10)), 1)
    found = measured(made)
    assert {row["trace_id"] for row in found.values()} == {"r0"}
    # The second all-reduces overlap from 35 to 38 ms.
    assert found["b"]["communication_s"] == pytest.approx(0.028 * 3 / 3.5)
    assert found["a"]["communication_s"] == pytest.approx(0.028 * 0.5 / 3.5 + 0.003)
    assert (found["a"]["basis"], found["a"]["modelled_s"]) == ("transfer", None)


def train_on_the_host(made: MadeTrace) -> None:
    """Add iterations with 3 ms of forward and 7 ms of backward pass of one layer."""
    made.add_trace("t", utc_start_ns=0)
    made.add_layer("fc", gradient_bytes=1_000_000)
    for iteration in range(8):
        at = iteration * 100 * MS
        made.add_range(at, at + 90 * MS, f"iteration {iteration}")
        for phase, role, begin, took in (
            ("forward", "layer", at + 10 * MS, 3),
            ("backward", "layer_backward", at + 20 * MS, 7),
        ):
            made.add_range(begin, begin + 9 * MS, f"phase:{phase}")
            made.add_range(begin + MS, begin + (1 + took) * MS, f"{role}:fc")


def test_layers_of_a_trace_without_a_gpu_cost_their_time_on_the_host() -> None:
    made = MadeTrace()
    train_on_the_host(made)
    (row,) = relation(made, "layer_cost")
    assert row["layer"] == "fc"
    assert row["forward_s"] == pytest.approx(0.003)
    assert row["backward_s"] == pytest.approx(0.007)


@pytest.mark.slow
def test_messages_of_a_parameter_server_count_from_the_start_of_their_iteration() -> None:
    """Each iteration begins with a pull of 4 ms, and pushes for 6 ms."""
    made = MadeTrace()
    train_on_the_host(made)
    made.add("job_rank", trace_id="t", job="run", rank=0, world_size=2, host="one")
    for iteration in range(8):
        for verb, after, took in (("pull", 0, 4), ("push", 70, 6)):
            begin = (100 * iteration + after) * MS
            text = f"{verb}, bytes = 1000000, layer = fc"
            made.add_range(begin, begin + took * MS, text, kind="start_end", thread_id=9)
    assert measured(made)["fc"]["communication_s"] == pytest.approx(0.010)


@pytest.mark.slow
def test_other_bytes_than_those_of_the_gradients_are_told() -> None:
    made = MadeTrace()
    rank(made, "r", ((1_000_000, 35),), 0)
    for row in measured(made, link_gbit=1.0).values():
        assert (row["communication_s"], row["ratio"], row["modelled_s"]) == (None, None, None)
        assert row["reason"].endswith("move 1.000 MB, the gradients have 4.000 MB")


@pytest.mark.slow
def test_all_reduces_beside_shards_are_not_those_of_the_layers() -> None:
    made = MadeTrace()
    rank(made, "r", TWO, 0)
    made.add_range(0, MS, "all_gather, bytes = 9, bucket = 0", trace_id="r", thread_id=9)
    assert {row["reason"] for row in measured(made).values()} == {
        "parameters are sharded: collectives do not follow the order of the layers"
    }


@pytest.mark.slow
def test_pushes_and_pulls_name_their_layer() -> None:
    """In each of 8 iterations, b is pushed in two parts of 3 ms and pulled in 4 ms."""
    made = MadeTrace()
    rank(made, "r", (), 0)
    for iteration in range(8):
        at = iteration * 100 * MS + 30 * MS
        for word, layer, begin, took in (
            ("push", "b", 0, 3),
            ("push", "b", 5, 3),
            ("pull", "b", 10, 4),
            ("pull", "a", 20, 2),
            ("push", "other", 30, 9),
        ):
            start = at + begin * MS
            text = f"{word}, bytes = 9, layer = {layer}"
            made.add_range(start, start + took * MS, text, trace_id="r", thread_id=9)
    found = measured(made, link_gbit=1.0)
    taken = {layer: row["communication_s"] for layer, row in found.items()}
    assert taken == pytest.approx({"b": 0.010, "a": 0.002, "relu": 0})
    modelled = {layer: row["modelled_s"] for layer, row in found.items()}
    assert modelled == pytest.approx({"b": 0.024, "a": 0.008, "relu": 0})
    assert (found["b"]["workers"], found["b"]["basis"]) == (2, "push and pull")


@pytest.mark.slow
def test_nothing_is_measured_without_collectives() -> None:
    made = MadeTrace()
    rank(made, "r", (), 0)
    assert measured(made) == {}
    assert len(metric(made, "comm_overhead", workers="2")) == len(LAYERS)
