"""Queries over one connection answer as each does on a connection of its own."""

from __future__ import annotations

import pytest

from fast import nightly
from query_files import MEMORY_METRICS, NOT_IN_SAMPLES, TORCH_METRICS
from tbd_trace.analysis.checks import evaluate, evaluate_on, select
from tbd_trace.api import Traces
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.query import Catalogue, Result, execute
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.store import Database

pytestmark = pytest.mark.slow

ASKED: list[tuple[str, dict[str, str]]] = [
    ("fp32_util", {}),
    ("fp32_util", {"by": "layer"}),
    ("fp32_util", {}),
    ("step_breakdown", {"by": "iteration"}),
    ("iteration_timing", {}),
    ("iteration_timing", {"iteration_pattern": "^nothing$"}),
    ("iteration_summary", {}),
    ("dominant_layer", {"clock": "host"}),
    ("dominant_layer", {}),
    ("kernel_summary", {"by": "configuration"}),
    ("kernel_summary", {}),
]


def same(first: Result, second: Result) -> bool:
    return (
        first.frame.equals(second.frame)
        and first.notes == second.notes
        and first.parameters == second.parameters
    )


def test_what_was_asked_before_changes_no_answer(sample_database: Database) -> None:
    catalogue, traces = Catalogue(), sample_database.trace_ids()
    with SharedSession(sample_database, traces) as conversation:
        for name, parameters in ASKED:
            query = catalogue.get(name)
            alone = execute(sample_database, query, traces, parameters)
            assert same(conversation.run(query, parameters), alone), (name, parameters)


@pytest.mark.parametrize(
    "few_rows", [pytest.param(0, marks=nightly), 500_000], ids=["views", "tables"]
)
def test_every_query_after_all_others(
    sample_database: Database,
    memory_sample: Database,
    torch_sample: Database,
    few_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tbd_trace.query.shared_session._FEW_ROWS", few_rows)
    answered = {query.name: query for query in Catalogue().metrics()}
    others = answered.keys() - NOT_IN_SAMPLES - MEMORY_METRICS - TORCH_METRICS
    for database, names in (
        (sample_database, others),
        (memory_sample, MEMORY_METRICS - NOT_IN_SAMPLES),
        (torch_sample, TORCH_METRICS),
    ):
        traces = database.trace_ids()
        with SharedSession(database, traces) as conversation:
            for name in sorted(names, reverse=True):
                alone = execute(database, answered[name], traces)
                assert same(conversation.run(answered[name]), alone), name


def test_an_error_ends_no_conversation(sample_database: Database) -> None:
    catalogue = Catalogue()
    traces = sample_database.resolve(["synthetic_cnn/metrics.csv"])
    with SharedSession(sample_database, traces) as conversation:
        with pytest.raises(CannotAnswerError, match="timeline"):
            conversation.run(catalogue.get("iteration_timing"))
        with pytest.raises(UsageError, match="not among"):
            conversation.run(catalogue.get("kernel_summary"), {"by": "colour"})
        assert not conversation.run(catalogue.get("kernel_summary")).frame.is_empty()


def test_rules_do_not_judge_by_the_parameters_of_questions(sample_database: Database) -> None:
    traces = sample_database.trace_ids()
    alone = evaluate(Traces(sample_database, traces))
    with SharedSession(sample_database, traces) as conversation:
        for name, parameters in ASKED:
            conversation.run(Catalogue().get(name), parameters)
        conversation.run(Catalogue().get("fp32_util"), {"by": "kernel"})
        assert evaluate_on(conversation, select(None)).equals(alone)
        asked = conversation.run(Catalogue().get("fp32_util"), {"by": "kernel"})
    assert same(asked, execute(sample_database, asked.query, traces, {"by": "kernel"}))
