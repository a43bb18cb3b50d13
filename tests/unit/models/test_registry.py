"""The table of differences from the suite names cells that exist, and its effects by hand."""

from __future__ import annotations

import csv
from collections import Counter

import pytest

from corpus import ROOT
from tbd_models.registry import find, models

with (ROOT / "models" / "suite_differences.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))


def effect(model: str, frameworks: str, field: str) -> float:
    (found,) = [
        row["effect_pct"]
        for row in ROWS
        if (row["model"], row["frameworks"], row["field"]) == (model, frameworks, field)
    ]
    return float(found)


def test_rows_name_cells_of_the_suite_once() -> None:
    suite = {model.name: model.frameworks for model in models() if model.in_suite}
    for row in ROWS:
        if row["model"] != "all":
            named = row["frameworks"].split(", ")
            assert named == ["all"] or set(named) <= set(suite[row["model"]]), row
        assert row["ours"] != row["suite"]
        assert bool(row["effect_pct"]) == bool(row["effect_on"]), row
    keys = Counter((row["model"], row["frameworks"], row["field"]) for row in ROWS)
    assert max(keys.values()) == 1


@pytest.mark.parametrize(("length", "masked"), [(128, 20), (512, 80)])
def test_scores_of_all_tokens_by_hand(length: int, masked: int) -> None:
    ours = find("bert").variant(f"pretraining-{length}").forward_flop
    others = (length - masked) * (2 * 1024 * 1024 + 2 * 1024 * 30528)
    expected = 100 * (ours / (ours + others) - 1)
    found = effect("bert", "pytorch", f"scores in pre-training, {length} tokens")
    assert found == pytest.approx(expected, abs=0.05)


def test_effects_on_parameters_by_hand() -> None:
    plain, aux = (find("inception3").variant(name).parameters for name in ("v3", "v3-aux"))
    found = effect("inception3", "pytorch", "auxiliary head")
    assert found == pytest.approx(100 * (plain / aux - 1), abs=5e-3)
    # One score more from 2048 and from 768 features, each with a bias.
    found = effect("inception3", "tensorflow", "classes")
    assert found == pytest.approx(-100 * (2049 + 769) / aux, abs=5e-3)
    # Queries, keys, values and outputs of 6 + 6 + 6 attentions of 512 units.
    transformer = find("transformer").variant(None).parameters
    found = effect("transformer", "all", "biases of the projections of attention")
    assert found == pytest.approx(-100 * 18 * 4 * 512 / transformer, abs=5e-3)
    # Weights, biases of GRU layers and labels, and normalization: two gates per cell and direction.
    suite = 255_206_336 + 14 * 6 * 1760 + 29 + 14 * 2 * 2 * 1760 + 2 * 2 * 32 + 2 * 1760
    ours = find("deepspeech2").variant("7x1760").parameters
    cells = "tensorflow, mxnet"
    found = effect("deepspeech2", cells, "batch normalization of GRU layers")
    assert found == pytest.approx(100 * (ours / suite - 1), abs=5e-3)
