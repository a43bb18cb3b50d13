"""ADV01: the top cause that could be avoided, the change and the gain, on made loops."""

from __future__ import annotations

import re

import pytest

from made_checks import rows_of
from made_loop import Loop
from made_trace import MadeTrace, Row
from sample_facts import timeline
from worked_window import steady

MS = 1_000_000


def told(made: MadeTrace, *, trains: bool = True, **parameters: float) -> Row:
    if trains:
        made.add_range(0, 500 * MS, "phase:backward")
    (row,) = rows_of(made, "ADV01", **parameters)
    return row


def loading(ns: int) -> Loop:
    kernels = [("void elementwise_kernel", 400_000)] * 6
    return Loop(kernels=kernels, loading_ns=dict.fromkeys(range(12), ns))


def on_sample() -> tuple[str, str, float, int, str, str]:
    """Return rule, verdict, value, threshold, unit and evidence for the sample.

    The largest cause but kernels: nothing runs while the host loads the next batch.

    It does so in ranges between the last call of a step and the first of the next one, and before
    the first call of the window.
    """
    found, window = timeline(), steady()
    assert window.iterations is not None
    loading = []
    for number in window.iterations:
        first = min(o.launch.start for o in found.operations if o.iteration == number)
        before = max(c.end for c in found.calls if c.end <= first)
        begin = max(before, window.start)
        loading += [
            min(one.end, first) - max(one.start, begin)
            for one in found.ranges
            if one.text == "phase:data" and one.start < first and one.end > begin
        ]
    return "ADV01", "pass", 100 * sum(loading) / window.elapsed, 20, "%", "replay"


@pytest.mark.parametrize(
    ("ns", "verdict", "severity"),
    [(200_000, "pass", None), (1_200_000, "finding", "warning"), (9 * MS, "finding", "severe")],
)
def test_a_loader(ns: int, verdict: str, severity: str | None) -> None:
    # Of a step of about 2.8 ms and the loading.
    loop = loading(ns)
    row = told(loop.run())
    assert (row["verdict"], row["severity"]) == (verdict, severity)
    if severity:
        assert row["value"] == pytest.approx(100 * ns / loop.mean_ns, rel=0.05)
        assert row["threshold"] == {"warning": 20, "severe": 50}[severity]
        assert row["reason"].startswith(f"input pipeline: {row['value']:.1f} % of ")
        found = re.search(r"about input pipeline: steps likely (\S+) times", row["reason"])
        assert found
        gain = loop.mean_ns / (loop.mean_ns - ns + 200_000)
        assert float(found[1]) == pytest.approx(gain, rel=0.01)
        assert row["advice"].startswith("feed the GPU faster")


@pytest.mark.slow
def test_a_program_that_does_not_train_gets_a_note() -> None:
    assert told(loading(9 * MS).run(), trains=False)["severity"] == "note"


@pytest.mark.slow
def test_thresholds_are_parameters() -> None:
    made = loading(1_200_000).run()
    assert told(made, min_cause_pct=60, severe_cause_pct=90)["verdict"] == "pass"


@pytest.mark.slow
def test_warm_up_does_not_count() -> None:
    row = told(Loop(steps=6, long_launches={(3, 2): 40 * MS}).run())
    assert row["verdict"] == "pass"
    assert row["value"] < 20


@pytest.mark.slow
def test_where_why_abstains_the_rule_does() -> None:
    alone = Loop().run()
    alone.rows["annotation"] = []
    alone.rows["kernel"] = alone.rows["kernel"][:2]
    few = told(alone)
    assert few["verdict"] == "not evaluable"
    assert few["reason"].startswith("gains: no complete step found")
    made = loading(9 * MS).run()
    made.rows["api_call"] = made.rows["api_call"][::9]
    blind = told(made)
    assert blind["verdict"] == "not evaluable"
    assert blind["reason"].startswith("host causes: launches of more than 20 %")
    assert blind["value"] is None
