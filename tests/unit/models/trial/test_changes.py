"""Changes that can be tried: names, arguments, and what why advises."""

from __future__ import annotations

import pytest

from tbd_models.instrument.trial_request import TrialRequest, name_and_argument, requested
from tbd_models.trial.changes import CHANGES, checked, keep, of_whatif
from tbd_trace.why.changes import CHANGES as WHATIF


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("workers", "workers=4"),
        ("workers=8", "workers=8"),
        ("amp", "amp"),
        ("threads", "threads=1"),
    ],
)
def test_arguments(change: str, found: str) -> None:
    assert checked(change, on_gpu=False) == found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("fast", "unknown; use one of workers, "),
        ("amp=2", "takes no argument"),
        ("workers=x", "expected a positive number"),
        ("workers=0", "expected a positive number"),
        ("tf32", "needs a GPU: FP32 products"),
    ],
)
def test_wrong_changes(change: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        checked(change, on_gpu=False)
    if change == "tf32":
        assert checked(change, on_gpu=True) == change


def test_advice_of_why_leads_to_changes_that_exist() -> None:
    tried = {name: of_whatif(name) for name in WHATIF}
    assert {name_and_argument(change)[0] for change in tried.values() if change} <= set(CHANGES)
    assert tried["input"] == of_whatif("workers=2:8") == "workers=4"
    assert (
        tried["no_sync"] is tried["gpu"] is None
    )  # the program must be edited, or the GPU changed


def test_how_to_keep_a_change() -> None:
    assert keep("workers=8") == "DataLoader(…, num_workers=8, persistent_workers=True)"
    assert all("{}" in change.keep for change in CHANGES.values() if change.argument)


def test_a_request_reaches_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert requested() is None
    request = TrialRequest("workers=4", 3, tmp_path / "r.json", tmp_path, is_timed=True)
    for name, value in request.variables().items():
        monkeypatch.setenv(name, value)
    assert requested() == request
