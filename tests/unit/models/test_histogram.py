"""Samples of unequal size: histograms, plans of batches, and training on them in PyTorch."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

from tbd_collectors.capture_metadata import described
from tbd_collectors.collection_request import Workload
from tbd_models import __main__ as program
from tbd_models.corpus import HISTOGRAMS, Plan, PlannedBatch, planned
from tbd_models.definition import UNSUPPORTED, UnsupportedError
from tbd_models.histogram import read_histogram
from tbd_models.stability import at_mean_work

# From lengths in random order and the batch size to (real units, units with padding) of batches.
Simulation = Callable[[list[int], int], list[tuple[float, float]]]


def _lengths(name: str, count: int) -> list[int]:
    rows = [
        [int(cell) for cell in line.split(",")]
        for line in (HISTOGRAMS / f"{name}.csv").read_text().splitlines()
        if line[0].isdigit()
    ]
    generator = random.Random(11)
    drawn = generator.choices(rows, [count for *_, count in rows], k=count)
    return [generator.randint(first, last) for first, last, _ in drawn]


def _filled(lengths: list[int], room: Callable[[int], tuple[int, int]]) -> list[list[int]]:
    # `room` gives the bucket of a length, and the number of samples in its batches.
    waiting: dict[int, list[int]] = {}
    complete = []
    for length in lengths:
        bucket, size = room(length)
        waiting.setdefault(bucket, []).append(length)
        if len(waiting[bucket]) == size:
            complete.append(waiting.pop(bucket))
    return complete


def _to_longest(batches: list[list[int]]) -> list[tuple[float, float]]:
    return [(sum(batch), len(batch) * max(batch)) for batch in batches]


def _seq2seq(lengths: list[int], size: int) -> list[tuple[float, float]]:
    return _to_longest(_filled(lengths, lambda length: ((length - 1) // 10, size)))


def _transformer(lengths: list[int], size: int) -> list[tuple[float, float]]:
    bounds = [8]
    while bounds[-1] < 256:
        bounds.append(min(256, max(bounds[-1] + 1, int(1.1 * bounds[-1]))))

    def room(length: int) -> tuple[int, int]:
        bound = next(bound for bound in bounds if length <= bound)
        return bound, 32 * size // bound

    return _to_longest(_filled(lengths, room))


def _bert(lengths: list[int], size: int) -> list[tuple[float, float]]:
    return [(sum(lengths[at : at + size]), 384 * size) for at in range(0, len(lengths), size)]


def _deepspeech2(lengths: list[int], size: int) -> list[tuple[float, float]]:
    ordered = sorted(lengths)
    return _to_longest([ordered[at : at + size] for at in range(0, len(ordered), size)])


def _maskrcnn(percent: list[int], size: int) -> list[tuple[float, float]]:
    def pixels(ratio: int) -> tuple[int, int]:
        height, width = ratio, 100
        scale = min(800 / min(height, width), 1333 / max(height, width))
        return round(height * scale), round(width * scale)

    found = []
    for batch in _filled(percent, lambda ratio: (int(ratio > 100), size)):
        sides = [pixels(ratio) for ratio in batch]
        tall, wide = (32 * -(-max(side[axis] for side in sides) // 32) for axis in range(2))
        found.append((float(sum(h * w for h, w in sides)), float(size * tall * wide)))
    return found


def _efficientdet(percent: list[int], size: int) -> list[tuple[float, float]]:
    area = [512**2 * min(ratio / 100, 100 / ratio) for ratio in percent]
    return [(sum(area[at : at + size]), 512**2 * size) for at in range(0, len(area), size)]


def _plan(model: str, variant: str | None = None, **asked: Any) -> Plan:
    package = import_module(f"tbd_models.{model}")
    dimensions = package.MODEL.variant(variant, "pytorch").at("full")
    asked = {"histogram": None, "batch_size": 4, "seed": 3} | asked
    return planned(package.corpus(dimensions), **asked)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "variant", "size", "simulated"),
    [
        ("seq2seq", None, 16, _seq2seq),
        pytest.param("transformer", None, 64, _transformer, marks=pytest.mark.nightly),
        ("bert", "squad", 4, _bert),
        ("deepspeech2", None, 8, _deepspeech2),
        pytest.param("maskrcnn", None, 2, _maskrcnn, marks=pytest.mark.nightly),
        ("efficientdet", None, 8, _efficientdet),
    ],
)
def test_padding_and_work_are_those_of_a_simulation(
    model: str, variant: str | None, size: int, simulated: Simulation
) -> None:
    # Few images have unusual shapes, so that one plan is too small a sample of them.
    seeds = range(8) if model == "maskrcnn" else range(1)
    plans = [_plan(model, variant, batch_size=size, seed=seed) for seed in seeds]
    batches = simulated(_lengths(plans[0].histogram, 20_000 * size * len(plans)), size)
    real, work = (sum(column) for column in zip(*batches, strict=True))
    amounts = [amount for _, amount in batches]
    # Within 1 %, and padding of utterances in order of length is next to none.
    padding = fmean(plan.padding_pct for plan in plans)
    assert padding == pytest.approx(100 * (1 - real / work), rel=0.01, abs=0.01)
    spread = 100 * pstdev(amounts) / fmean(amounts)
    variation = fmean(plan.work_variation_pct for plan in plans)
    assert variation == pytest.approx(spread, rel=0.01, abs=1e-9)


@pytest.mark.slow
def test_equal_seeds_plan_equal_batches() -> None:
    first, again, other = (_plan("seq2seq", seed=seed) for seed in (1, 1, 2))
    assert [batch.sizes.tolist() for batch in first.made] == [b.sizes.tolist() for b in again.made]
    assert [batch.sizes.tolist() for batch in first.made] != [b.sizes.tolist() for b in other.made]


@pytest.mark.parametrize(
    ("name", "mean"), [("iwslt15", 2.7e6 / 133_317), ("wmt14", 116 / 4.5 * 1.2)]
)
def test_histograms_have_the_published_means(name: str, mean: float) -> None:
    found = read_histogram(HISTOGRAMS / f"{name}.csv")
    middle = (found.first + found.last) / 2
    assert float(middle @ found.share) == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("1,5,2\n7,9,1\n", "line 3: 7 does not follow 5"),
        ("1,5,2\n5,9,1\n", "line 3: 5 does not follow 5"),
        ("1,5,-2\n", "line 2: the count -2"),
        ("1,5,nan\n", "line 2: the count nan"),
        ("5,1,2\n", "line 2: the range 5 to 1"),
        ("0,1,2\n", "line 2: the range 0 to 1"),
        ("1,x,2\n", "line 2: invalid literal"),
        ("1,2\n", "line 2: has 2 cells"),
        ("1,2,0\n", "all counts are 0"),
        ("", "has the columns"),
        ("1,101,2\n", "lengths up to 101 are beyond the largest bucket of 100"),
    ],
)
def test_a_bad_histogram_is_refused_in_one_line(tmp_path: Path, rows: str, said: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("first,last,count\n" + rows)
    with pytest.raises(UnsupportedError) as raised:
        _plan("seq2seq", histogram=file)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_histogram_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no readable histogram"):
        _plan("seq2seq", histogram=tmp_path / "none.csv")


def test_pretraining_has_full_sequences() -> None:
    with pytest.raises(UnsupportedError, match="--variant squad"):
        _plan("bert", "pretraining-128")


def test_times_at_mean_work_show_no_work_but_the_rest() -> None:
    work = [10.0, 30.0, 20.0, 50.0, 40.0, 10.0, 20.0]
    times = [3 + 0.5 * amount for amount in work]
    assert at_mean_work(times, work) == pytest.approx([3 + 0.5 * fmean(work)] * 7)
    times[2] += 100  # one stall
    assert at_mean_work(times, work)[2] == pytest.approx(103 + 0.5 * fmean(work))
    # Equal work explains nothing.
    assert at_mean_work(times, [7.0] * 7) == times


def _trained(model: str, variant: str | None, sizes: list[Any], padded: tuple[int, ...]) -> Any:
    """Return the small workload and a batch of these sizes."""
    package = import_module(f"tbd_models.{model}")
    dimensions = package.MODEL.variant(variant, "pytorch").at("small")
    dimensions = package.corpus(dimensions).dimensions or dimensions
    workload = import_module(f"tbd_models.{model}.pytorch").workload(dimensions)
    batch = PlannedBatch(np.array(sizes).reshape(len(sizes), -1), padded)
    return workload, workload.sized(batch, np.random.default_rng(1))


def test_padding_changes_no_score() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    workload, both = _trained("transformer", None, [3, 5], (5,))
    _, short = _trained("transformer", None, [3], (3,))
    assert both["source"][0].tolist() == [*short["source"][0].tolist(), 0, 0]
    assert both["label"][0, 3:].tolist() == [-100, -100]
    workload.model.eval()
    scores = workload.forward(workload.model, both)
    torch.testing.assert_close(scores[0, :3], workload.forward(workload.model, short)[0])


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("model", "variant", "sizes", "padded"),
    [
        ("seq2seq", None, [2, 7], (7,)),
        ("transformer", None, [2, 40], (40,)),
        ("bert", "squad", [9, 30], (32,)),
        ("deepspeech2", None, [40, 60], (60,)),
        ("maskrcnn", None, [(128, 170), (100, 213)], (128, 224)),
        ("efficientdet", None, [(256, 192), (128, 256)], (256, 256)),
    ],
)
def test_models_train_on_samples_of_unequal_size(
    model: str, variant: str | None, sizes: list[Any], padded: tuple[int, ...]
) -> None:
    torch = pytest.importorskip("torch")
    if model == "bert":
        pytest.importorskip("transformers")
    torch.manual_seed(1)
    workload, batch = _trained(model, variant, sizes, padded)
    loss = workload.loss(workload.forward(workload.model, batch), batch)
    loss.backward()
    assert torch.isfinite(loss)
    gradients = [p.grad for p in workload.model.parameters() if p.requires_grad]
    assert all(torch.isfinite(g).all() for g in gradients if g is not None)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_run_reports_the_batches_that_it_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    file, report, layers = (tmp_path / name for name in ("two.csv", "report.json", "layers.json"))
    file.write_text("first,last,count\n10,10,1\n11,49,0\n50,50,1\n")
    monkeypatch.setattr(
        "sys.argv",
        ["tbd_models", "run", "seq2seq", "--scale=small", "--device=cpu", "--batch-size=3",
         f"--lengths={file}", "--warmup=2", "--iterations=5", f"--report={report}",
         f"--layers={layers}"],
    )  # fmt: skip
    assert program.main() == 0
    facts = json.loads(report.read_text())["lengths"]
    # Lengths 2 and 10 of the small model are never in a batch together.
    assert facts["padding_pct"] == facts["corpus_padding_pct"] == 0
    assert (facts["samples"], facts["unit"], facts["histogram"]) == (15, "words", "two")
    assert set(facts["work"]) == {6, 30}
    assert sum(facts["work"]) == facts["real_units"]
    # Half of the batches have 6 words, the others 30.
    assert facts["corpus_work_variation_pct"] == pytest.approx(100 * 12 / 18, rel=0.01)
    # Work per sample differs between batches, so the layers have none.
    assert all("forward_flop" not in layer for layer in json.loads(layers.read_text())["layers"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resnet50"], "all samples of resnet50 have the same size"),
        (["seq2seq", "--gradient-accumulation=2"], "--lengths and --gradient-accumulation exclude"),
        (["seq2seq", "--memory=m.jsonl"], "--lengths and --memory exclude"),
    ],
)
def test_what_has_no_lengths_is_refused(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("sys.argv", ["tbd_models", "run", *arguments, "--lengths=corpus"])
    assert program.main() == UNSUPPORTED
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_a_capture_counts_the_samples_of_its_batches() -> None:
    facts = {
        "histogram": "librispeech", "sequence_policy": "bucketed", "unit": "audio s",
        "samples": 30, "real_units": 150.0, "padding_pct": 2.0, "work": [1, 2],
        "corpus_padding_pct": 1.0, "corpus_work_variation_pct": 3.0,
    }  # fmt: skip
    report = {"status": "ok", "seconds": 10.0, "iteration_ns": [1, 2], "lengths": facts}
    request = Workload("deepspeech2", batch_size=16, iterations=2, lengths="corpus")
    document = described(request, report, {}, {})
    assert document["world_size"] == 1
    assert document["sequence_policy"] == "bucketed"
    assert document["dataset"] == "synthetic, as LibriSpeech, lengths of librispeech"
    assert document["throughput"]["samples_per_second"] == 3.0
    assert document["throughput"]["real_units_per_second"] == 15.0
    # The published unit is seconds of audio, without padding.
    assert document["throughput"]["units_per_sample"] == 5.0
