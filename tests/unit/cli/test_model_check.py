"""``tbd-trace models --check``: other counters agree, and a number that differs is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fast import one_in
from interpreters.run import MXNET, TENSORFLOW, counted_in
from tbd_models.definition import Variant
from tbd_models.registry import find, implementation, models
from tbd_trace.cli.main import app

SUITE = [model for model in models() if model.in_suite]
CELLS = [
    (model.name, variant)
    for model in SUITE
    if "pytorch" in model.frameworks
    for variant in model.variants_in("pytorch")
]


def _needed(name: str) -> None:
    pytest.importorskip("torch")
    if name == "bert":
        pytest.importorskip("transformers")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant"),
    one_in(4, CELLS, then_one_in=3),
    ids=[f"{name}-{v.name}" for name, v in CELLS],
)
def test_torch_counts_what_is_declared(name: str, variant: Variant) -> None:
    _needed(name)
    from tbd_models.pytorch.count import count

    found = count(implementation(find(name), "pytorch").workload, variant.dimensions)
    assert found.parameters == variant.parameters
    assert found.forward_flop == variant.forward_flop
    assert found.training_flop == (None if name == "efficientdet" else variant.training_flop)


FVCORE = [
    ("resnet50", "v1.5"), ("resnet50", "v2"), ("resnet50", "v2-slim"), ("inception3", "v3"),
    ("transformer", "base"), ("bert", "pretraining-128"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), one_in(3, FVCORE))
def test_fvcore_counts_what_is_declared(name: str, variant: str) -> None:
    """A counter that traces the forward pass, of networks whose operations it knows."""
    _needed(name)
    import torch
    from fvcore.nn import FlopCountAnalysis

    from tbd_models.pytorch.workload import to_device

    class Forward(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = work.model

        def forward(self, _: torch.Tensor) -> Any:
            return work.forward(self.model, batch)

    (wanted,) = (v for v in find(name).variants if v.name == variant)
    # It cannot trace a convolution without data; a transformer needs none.
    device = torch.device("cpu" if name in {"resnet50", "inception3"} else "meta")
    with device:
        work = implementation(find(name), "pytorch").workload(wanted.dimensions)
    work.model.eval()
    batch = to_device(work.batch(1, np.random.default_rng(0)), device)
    counted = FlopCountAnalysis(Forward(), (torch.zeros(1, device=device),))
    counted.unsupported_ops_warnings(False)
    products = sum(counted.by_operator()[operator] for operator in ("conv", "linear", "matmul"))
    assert 2 * products == wanted.forward_flop


@pytest.mark.slow
def test_torch_counts_grouped_convolutions_too_high() -> None:
    """The known exception: without it, the training FLOP of EfficientDet would be compared."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    model = find("efficientdet")
    with torch.device("meta"):
        work = implementation(model, "pytorch").workload(model.variants[0].dimensions)
        batch = work.batch(1, np.random.default_rng(0))
    batch = {key: value.to("meta") for key, value in batch.items()}
    with FlopCounterMode(display=False) as counter:
        work.loss(work.forward(work.model, batch), batch).backward()
    ratio = counter.get_total_flops() / model.variants[0].training_flop
    assert ratio == pytest.approx(11.8, abs=0.05)


@pytest.mark.needs("mxnet")
def test_a_walk_over_the_symbol_counts_what_is_declared() -> None:
    names = [model.name for model in SUITE if "mxnet" in model.frameworks]
    found = counted_in(str(MXNET), "mxnet", *names)
    assert set(found) == {(name, v.name) for name in names for v in find(name).variants_in("mxnet")}
    for (name, variant), counted in found.items():
        declared = find(name).variant(variant)
        assert counted["parameters"] == declared.parameters_in("mxnet")
        assert counted["forward_flop"] == declared.forward_flop


@pytest.mark.needs("tensorflow")
def test_tensorflows_profiler_counts_what_is_declared() -> None:
    """In Seq2Seq, it counts an iteration of the loop of each recurrent layer."""
    for (name, variant), counted in counted_in(str(TENSORFLOW), "tensorflow", "seq2seq").items():
        declared = find(name).variant(variant)
        assert counted["parameters"] == declared.parameters_in("tensorflow")
        assert counted["forward_flop"] == declared.forward_flop


def stand_in(directory: Path, lines: list[dict[str, Any]], code: int = 0) -> Path:
    """Return an interpreter that has PyTorch and counts the given lines."""
    counts = "\n".join(json.dumps(line) for line in lines)
    versions = json.dumps({"python": "3.11.0", "torch": "2.0", "numpy": "1", "transformers": "4"})
    path = directory / "python"
    path.write_text(
        f"#!/bin/sh\nif [ \"$1\" = -c ]; then echo '{versions}'; exit 0; fi\n"
        f"cat <<'END'\n{counts}\nEND\necho 'it failed' >&2\nexit {code}\n"
    )
    path.chmod(0o755)
    return path


def declared_counts() -> list[dict[str, Any]]:
    return [
        {
            "model": name, "variant": v.name, "counter": "made", "parameters": v.parameters,
            "forward_flop": v.forward_flop, "training_flop": v.training_flop, "uncounted": "",
        }
        for name, v in CELLS
    ]  # fmt: skip


def checked(python: Path) -> tuple[int, dict[tuple[str, Any], dict[str, Any]]]:
    arguments = ["models", "--check", "--python", str(python), "--format", "json"]
    done = CliRunner().invoke(app, arguments)
    rows = json.loads(done.stdout)
    return done.exit_code, {(r["model"], r["variant"]): r for r in rows if r["variant"]}


def test_equal_counts_pass_and_others_fail(tmp_path: Path) -> None:
    lines = declared_counts()
    code, rows = checked(stand_in(tmp_path, lines))
    assert code == 0
    assert {row["result"] for row in rows.values()} == {"equal"}
    lines[0]["forward_flop"] += 1
    code, rows = checked(stand_in(tmp_path, lines))
    assert code == 1
    wrong = [row for row in rows.values() if row["result"] != "equal"]
    assert [(row["result"], row["note"]) for row in wrong] == [("differs", "forward_flop")]


def test_a_counter_that_fails_is_reported(tmp_path: Path) -> None:
    code, rows = checked(stand_in(tmp_path, declared_counts()[:2], code=1))
    assert code == 1
    assert [row["result"] for row in rows.values()].count("equal") == 2
    failed = [row for row in rows.values() if row["result"] == "failed"]
    assert len(failed) == len(CELLS) - 2
    assert all("exited with 1: it failed" in row["note"] for row in failed)
