"""The batches of a training, whatever the framework."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tbd_models.corpus import planned
from tbd_models.data import batches
from tbd_models.definition import UnsupportedError
from tbd_models.seq2seq import MODEL, corpus
from tbd_models.settings import Settings
from tbd_models.synthetic import Batch


def drawn(size: int, rng: np.random.Generator) -> Batch:
    return {"x": rng.random((size, 2))}


def total(batch: Batch) -> float:
    return float(batch["x"].sum())


def test_four_synthetic_batches_are_taken_in_turn() -> None:
    batch = batches(drawn, Settings(batch_size=3, seed=5), total)
    rng = np.random.default_rng(5)
    expected = [float(rng.random((3, 2)).sum()) for _ in range(4)]
    assert [batch(number) for number in range(9)] == [*expected, *expected, expected[0]]


def test_tensors_are_made_once() -> None:
    batch = batches(drawn, Settings(batch_size=3), dict)
    assert batch(0) is batch(4)
    assert batch(0) is not batch(1)


def test_samples_of_a_data_set_come_in_order(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1.0, 0.0], [10.0, 0.0], [100.0, 0.0]]))
    batch = batches(drawn, Settings(batch_size=2, data=tmp_path), total)
    assert [batch(number) for number in range(3)] == [11, 101, 110]


def _planned() -> Settings:
    plan = planned(corpus(MODEL.variants[0].small), None, 2, 0)
    return Settings(batch_size=2, lengths=plan)


def test_planned_batches_are_made_once_and_taken_in_turn() -> None:
    settings = _planned()
    assert settings.lengths is not None
    batch = batches(drawn, settings, dict, lambda planned, _: {"x": planned.sizes})
    for number, made in enumerate(settings.lengths.made):
        assert np.array_equal(batch(number)["x"], made.sizes)
        assert batch(number) is batch(number + len(settings.lengths.made))


def test_a_model_of_one_size_takes_no_lengths() -> None:
    with pytest.raises(UnsupportedError, match="samples of one size in this framework"):
        batches(drawn, _planned(), total)
