"""FLOP of operators from shapes: argument positions and live runs against PyTorch itself."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from corpus import ROOT
from tbd_trace.query import sql
from tbd_trace.store import Database

with (ROOT / "data" / "operator_flop_formula.csv").open(newline="") as file:
    FORMULAS = list(csv.DictReader(file))

torch = pytest.importorskip("torch")
flop_counter = pytest.importorskip("torch.utils.flop_counter")
pytest.importorskip("torch.utils.checkpoint")

NAMES = {
    "product": (("mat1", "self"), ("mat2",)),
    "linear": (("input",), ("weight",)),
    "convolution": (("self", "input"), ("weight",)),
    "convolution backward": (("input",), ("weight",), ("grad_output",)),
    "attention": (("query",), ("key",), ("value",)),
    "attention backward": (("query",), ("key",), ("value",)),
}


@pytest.mark.parametrize("row", FORMULAS, ids=lambda row: row["operator"])
def test_positions_are_those_of_the_schema(row: dict[str, str]) -> None:
    if not row["operator"].startswith("aten::"):
        pytest.skip("an operator of another package")
    packet = getattr(torch.ops.aten, row["operator"].removeprefix("aten::"), None)
    if packet is None:
        pytest.skip("not in this release of PyTorch")
    names = [argument.name for argument in packet.default._schema.arguments]
    for column, allowed in zip(("first", "second", "third"), NAMES[row["formula"]], strict=False):
        usual = {"self", "batch1", "mat1"} if row["formula"] == "product" else set()
        usual |= {"batch2"} if column == "second" else set()
        assert names[int(row[column]) - 1] in {*allowed, *usual}
    for column, name in {"stride": "stride", "padding": "padding", "dilation": "dilation",
                         "transposed": "transposed", "mask": "output_mask",
                         "causal": "is_causal"}.items():  # fmt: skip
        if row[column]:
            assert names[int(row[column]) - 1] == name


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(16, 48)

    def forward(self, x: Any) -> Any:
        q, k, v = self.projection(x).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, k, v, is_causal=True) + attend(q, k, v)


MODELS = {
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(),
                                        torch.nn.Linear(32, 4)), (5, 8)),
    "convolutions": (lambda: torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 4, 3, dilation=2), torch.nn.ConvTranspose2d(4, 5, 3, stride=2),
        torch.nn.Flatten(), torch.nn.LazyLinear(7)), (2, 3, 20, 20)),
    "attention": (Attention, (2, 6, 16)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_live_run_equals_the_counter_of_pytorch(tmp_path: Path, name: str) -> None:
    make, shape = MODELS[name]
    model, inputs = make(), torch.randn(*shape, requires_grad=True)
    model(inputs)
    # The counter has no formula for the attention of the CPU, which the math backend avoids.
    backend = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with backend, flop_counter.FlopCounterMode(display=False) as counter:
        model(inputs).sum().backward()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        model(inputs).sum().backward()
    profiler.export_chrome_trace(str(tmp_path / "live.json"))
    database = Database(tmp_path / "live.duckdb")
    (report,) = database.ingest([tmp_path / "live.json"])
    statement = """
        SELECT sum(full_flop) AS executed, sum(full_flop) FILTER (pass = 'forward') AS forward,
            sum(if(convention LIKE 'attention%', model_flop / flop, 1) * full_flop) AS model
        FROM operator_flop"""
    ((executed, forward, model_flop),) = sql(database, statement, [report.trace_id]).rows()
    # The math backend keeps the scores, so its backward pass is that of the model.
    assert model_flop == counter.get_total_flops()
    assert executed >= model_flop
    assert 0 < forward < executed


@pytest.mark.parametrize("reentrant", [True, False])
def test_live_checkpointing_equals_runs_with_and_without_it(
    tmp_path: Path, reentrant: bool
) -> None:
    block = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8), torch.nn.Tanh()
    )
    checkpoint = torch.utils.checkpoint.checkpoint
    inputs = torch.randn(5, 8, requires_grad=True)

    def run(checkpointed: bool) -> None:
        hidden = checkpoint(block, inputs, use_reentrant=reentrant) if checkpointed else (
            block(inputs))  # fmt: skip
        hidden.sum().backward()

    def counted(checkpointed: bool) -> int:
        with flop_counter.FlopCounterMode(display=False) as counter:
            run(checkpointed)
        return int(counter.get_total_flops())

    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        run(True)
    profiler.export_chrome_trace(str(tmp_path / "live.json"))
    database = Database(tmp_path / "live.duckdb")
    (report,) = database.ingest([tmp_path / "live.json"])
    statement = "SELECT sum(flop), sum(model_flop) FROM operator_flop"
    assert sql(database, statement, [report.trace_id]).rows() == [(counted(True), counted(False))]
