"""``tbd-trace models`` lists the workloads with their published sizes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from corpus import reference_rows
from tbd_models.registry import NAMES, models
from tbd_trace.cli.main import app
from tbd_trace.machine.inspection import FRAMEWORKS

# Row of the golden table per variant; other variants have none.
GOLDEN = {
    ("resnet50", "v1"): "ResNet-50 v1 (stride in first 1x1)",
    ("resnet50", "v1.5"): "ResNet-50 v1.5",
    ("resnet50", "v2"): "ResNet-50 v2 pre-activation (MXNet symbol of the suite)",
    ("resnet50", "v2-slim"): "ResNet-50 v2 of TF slim (stride in the last unit)",
    ("inception3", "v3"): "Inception-v3 (no aux head)",
    ("seq2seq", "nmt"): "Seq2Seq NMT 2x512 uni, en-vi vocabularies",
    ("transformer", "base"): "Transformer base",
    ("deepspeech2", "7x1760-joined"): "Deep Speech 2 MXNet 7xGRU1760",
}


def listed(*options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["models", "--format", "json", *options])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_the_eight_of_pytorch_and_the_language_model() -> None:
    names = [row["model"] for row in listed() if row["framework"] == "pytorch"]
    assert sorted(names) == sorted(set(NAMES) - {"wgan", "minigo"})


def test_the_suite_has_ten_models_in_22_cells() -> None:
    """The language model is an addition to them."""
    ten = {model.name for model in models() if model.in_suite}
    assert len(ten) == 10
    cells = [(row["model"], row["framework"]) for row in listed()]
    assert sum(model in ten for model, _ in cells) == len(cells) - 1 == 22
    assert [cell for cell in cells if cell[0] not in ten] == [("llm", "pytorch")]


def test_sizes_are_the_golden_ones() -> None:
    rows = {}
    for row in reference_rows("flops_golden.csv"):
        rows.setdefault(row["model"], row)
    compared = set()
    for row in listed("--variants"):
        variant = row["model"], row["variant"]
        if variant in GOLDEN:
            compared.add(variant)
            golden = rows[GOLDEN[variant]]
            assert row["forward_flop"] == int(golden["forward_flop"]), variant
            if golden["params"] and row["framework"] != "tensorflow":
                assert row["parameters"] == int(golden["params"]), variant
    assert compared == set(GOLDEN)


def test_defaults_are_what_the_suite_ran_in_the_framework() -> None:
    found = {(r["model"], r["framework"]): r["variant"] for r in listed()}
    for model, variants in {
        "resnet50": ("v1.5", "v2-slim", "v2"),
        "inception3": ("v3", "v3-aux", "v3"),
        "deepspeech2": ("3x2560", "7x1760", "7x1760"),
    }.items():
        ran = tuple(found[model, name] for name in ("pytorch", "tensorflow", "mxnet"))
        assert ran == variants


def test_parameters_are_those_of_the_framework() -> None:
    """In PyTorch and MXNet, each of the four LSTMs has a second vector of biases, of 4 x 512."""
    found = {row["framework"]: row["parameters"] for row in listed() if row["model"] == "seq2seq"}
    two_biases = 27_198_464
    one_bias = two_biases - 4 * (4 * 512)
    assert found == {"pytorch": two_biases, "mxnet": two_biases, "tensorflow": one_bias}


def test_variants_have_rows_of_their_own() -> None:
    bert = [row["variant"] for row in listed("--variants") if row["model"] == "bert"]
    assert bert == ["pretraining-128", "pretraining-512", "squad"]


def test_an_interpreter_without_frameworks_runs_nothing(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    rows = listed("--python", str(bare))
    assert {row["runs_on"] for row in rows} == {None}
    for row in rows:
        package = FRAMEWORKS[row["framework"]][0]
        assert f"not installed: {package}, numpy" in row["why_not"]
