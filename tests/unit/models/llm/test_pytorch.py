"""The decoder language model: size, work, memory, accumulation and checkpointing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from memory_lines import Memory  # noqa: E402
from tbd_models.definition import Variant  # noqa: E402
from tbd_models.instrument.layers_pytorch import Layer, measure  # noqa: E402
from tbd_models.instrument.marks import NoMarks  # noqa: E402
from tbd_models.llm import MODEL, Dimensions  # noqa: E402
from tbd_models.llm.pytorch import workload  # noqa: E402
from tbd_models.pytorch import memory  # noqa: E402
from tbd_models.pytorch.trainer import PyTorchTrainer  # noqa: E402
from tbd_models.pytorch.workload import Workload  # noqa: E402
from tbd_models.settings import Settings  # noqa: E402
from tbd_models.synthetic import FIRST_WORD  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = MODEL.variants[0].small
# Sizes that differ from each other, so that formulas cannot confuse them.
ODD = Dimensions(length=10, vocabulary=50, width=24, inner_width=40, heads=6, kv_heads=2, layers=3)
LLAMA_8B = Dimensions(
    length=8192, vocabulary=128_256, width=4096, inner_width=14_336, heads=32, kv_heads=8,
    layers=32, tied=False,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def _batch(work: Workload, size: int) -> dict[str, Any]:
    return work.batch(size, np.random.default_rng(0))


def _step(work: Workload, batch: dict[str, Any]) -> Any:
    return work.loss(work.forward(work.model, batch), batch)


def _fake(d: Dimensions, size: int = 2) -> tuple[Workload, list[Layer]]:
    """Return a workload and its measured layers, without memory for either."""
    with FakeTensorMode():
        work = workload(d)
        batch = {"tokens": torch.zeros(size, d.length + 1, dtype=torch.int64)}
        return work, measure(work.model, lambda: _step(work, batch).backward())


def _flop(layers: list[Layer]) -> tuple[int, int]:
    return sum(x.forward_flop for x in layers), sum(x.backward_flop for x in layers)


# Parameters and FLOP.


def _matrices(d: Dimensions) -> int:
    """Return the parameters of the matrix products, the scores of the vocabulary included."""
    head = d.width // d.heads
    attention = 2 * d.width * d.heads * head + 2 * d.width * d.kv_heads * head
    return d.layers * (attention + 3 * d.width * d.inner_width) + d.width * d.vocabulary


@pytest.mark.slow
@pytest.mark.parametrize("variant", MODEL.variants, ids=lambda variant: variant.name)
def test_full_size_has_the_declared_parameters_and_operations(variant: Variant) -> None:
    d = variant.dimensions
    work, layers = _fake(d)
    assert sum(p.numel() for p in work.model.parameters()) == variant.parameters
    assert sum(layer.parameters for layer in layers) == variant.parameters
    assert variant.parameters == _matrices(d) + (2 * d.layers + 1) * d.width

    forward, backward = _flop(layers)
    assert (forward / 2, (forward + backward) / 2) == (variant.forward_flop, variant.training_flop)
    per_token = 6 * _matrices(d) + 6 * d.layers * d.width * d.length
    assert variant.training_flop == 3 * variant.forward_flop == per_token * d.length


@pytest.mark.slow
def test_llama_8b_has_the_published_work() -> None:
    """5.147e10 FLOP per token at 8192 tokens; by the 6 N rule 0.936 of it, 1.125 uncausal."""
    work, layers = _fake(LLAMA_8B, 1)
    parameters = sum(p.numel() for p in work.model.parameters())
    assert parameters == 8_030_261_248  # as published
    per_token = sum(_flop(layers)) / 8192
    assert per_token == pytest.approx(5.147e10, rel=5e-5)
    # N includes the embeddings of the input here, though they are looked up.
    assert 6 * parameters / per_token == pytest.approx(0.936, abs=5e-4)
    full_attention = 12 * 32 * 4096 * 8192
    assert (6 * _matrices(LLAMA_8B) + full_attention) / per_token == pytest.approx(1.125, abs=5e-4)


def test_operations_are_those_of_the_counter_of_torch() -> None:
    """Products with weights exactly; those of attention half, as the counter's are not causal."""
    work = workload(ODD)
    batch = _batch(work, 3)
    layers = measure(work.model, lambda: _step(work, batch).backward())
    counts = []
    # Not fused, so that the counter sees the matrix products of attention.
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = _step(work, batch)
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    for counter in (forward, backward):
        found = {str(op): flop for op, flop in counter.get_flop_counts()["Global"].items()}
        assert set(found) == {"aten.mm", "aten.bmm"}
        counts.append(found["aten.mm"] + found["aten.bmm"] / 2)
    assert _flop(layers) == tuple(counts)


@pytest.mark.slow
def test_fake_tensors_count_as_a_cpu_does() -> None:
    work = workload(SMALL)
    batch = _batch(work, 2)
    real = measure(work.model, lambda: _step(work, batch).backward())
    # Views of fake tensors count as operations: order and modules that only make views differ.
    fake = {layer.name: layer for layer in _fake(SMALL)[1]}
    assert [fake[layer.name] for layer in real] == real
    assert _flop([*fake.values()]) == _flop(real)


@pytest.mark.slow
def test_layers_are_described() -> None:
    layers = {layer.name: layer.entry(3) for layer in _fake(ODD, 3)[1]}
    attention = layers["model.layers.2.self_attn"]
    assert attention["type"] == "LlamaAttention"
    assert attention["forward_flop"] == 2 * 10 * 10 * 24  # half of two products
    gate = layers["model.layers.0.mlp.gate_proj"]
    assert gate["parameters"] == 24 * 40
    assert gate["weight_bytes"] == gate["gradient_bytes"] == 4 * 24 * 40
    assert gate["feature_map_bytes"] == 4 * 10 * 40
    assert (gate["forward_flop"], gate["backward_flop"]) == (2 * 10 * 960, 4 * 10 * 960)
    assert layers["model.embed_tokens"]["parameters"] == 50 * 24
    assert layers["lm_head"]["parameters"] == 0  # shared


# Results.


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_scores_are_those_of_the_package(implementation: str) -> None:
    work = workload(ODD)
    tokens = _batch(work, 3)
    ours = work.forward(work.model, tokens)
    work.model.set_attn_implementation(implementation)
    torch.testing.assert_close(ours, work.forward(work.model, tokens), rtol=1e-4, atol=1e-6)


def test_scores_depend_on_earlier_tokens_alone() -> None:
    work = workload(SMALL)
    batch = _batch(work, 2)
    before = work.forward(work.model, batch)
    batch["tokens"][:, 5] = (batch["tokens"][:, 5] + 1) % 64
    after = work.forward(work.model, batch)
    torch.testing.assert_close(after[:, :5], before[:, :5])
    assert (after - before).abs().amax(-1)[:, 5:].min() > 0


def test_every_other_token_follows_from_the_one_before() -> None:
    tokens = _batch(workload(SMALL), 50)["tokens"]
    assert (tokens.shape, tokens.dtype) == ((50, 33), torch.int64)
    assert (tokens.min().item(), tokens.max().item()) == (FIRST_WORD, 63)
    first, second = tokens[:, 0:32:2], tokens[:, 1:32:2]
    assert torch.equal(first + second, torch.full((50, 16), 63 + FIRST_WORD))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_loss_falls(precision: str) -> None:
    trainer = PyTorchTrainer(workload, SMALL, Settings(batch_size=4, precision=precision))
    losses = _losses(trainer, 20)
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[0] == pytest.approx(math.log(64), rel=0.05)
    assert sum(losses[-4:]) < 0.9 * sum(losses[:4])


def test_only_matrices_decay() -> None:
    work = workload(SMALL)
    optimizer = work.optimizer(work.model.parameters())
    decaying, others = optimizer.param_groups
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert sum(p.numel() for p in others["params"]) == (2 * 2 + 1) * 32
    assert decaying["betas"] == (0.9, 0.95)
    rates = MODEL.variant("1b").dimensions
    assert [rates.rate(step) for step in (1, 2000, 9000)] == pytest.approx([1.5e-7, 3e-4, 3e-4])


# Gradient accumulation.


def _losses(trainer: PyTorchTrainer, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        trainer.step(NoMarks())
        losses.append(trainer.loss())
    return losses


def test_accumulated_gradients_are_those_of_the_whole_batch() -> None:
    """Batches are drawn one after another, so four small ones are one of four times the size."""
    weights, losses = [], []
    for passes in (1, 4):
        settings = Settings(batch_size=8, gradient_accumulation=passes)
        trainer = PyTorchTrainer(workload, ODD, settings)
        losses.append(_losses(trainer, 1)[0])
        weights.append(torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=1e-7)


# Memory.


def _recorded(path: Path, d: Dimensions, *, estimate: bool = False, **options: Any) -> Memory:
    record = memory.estimated if estimate else memory.measured
    record(workload, d, Settings(**{"batch_size": 3} | options), path / "memory.jsonl")
    found = Memory(path / "memory.jsonl")
    found.check_conservation()
    return found


def _layer_maps(d: Dimensions, batch: int) -> int:
    """Return the feature maps of a decoder layer in bytes, without the sum that it ends with."""
    tokens = batch * d.length
    state = 4 * tokens * d.width
    norm = 4 * tokens + 2 * state  # inverse root, normalized and scaled values
    # Query, key and value of all heads, the output and its logarithms of sums.
    attention = 4 * state + 4 * tokens * d.heads
    return 2 * norm + attention + state + 4 * 4 * tokens * d.inner_width


def _other_maps(d: Dimensions, batch: int) -> int:
    tokens = batch * d.length
    state = 4 * tokens * d.width
    rotary = 2 * 4 * d.length * d.width // d.heads  # cosines and sines, equal for all sequences
    # Logarithms of the softmax, a copy of the labels, and the total weight of the loss.
    loss = 4 * tokens * d.vocabulary + 8 * tokens + 4
    return state + rotary + (4 * tokens + 2 * state) + loss


@pytest.mark.slow
@pytest.mark.parametrize("estimate", [False, True])
def test_feature_maps_follow_the_formula(tmp_path: Path, estimate: bool) -> None:
    found = _recorded(tmp_path, ODD, estimate=estimate)
    ends = 4 * 3 * 10 * 24
    expected = ODD.layers * (_layer_maps(ODD, 3) + ends) + _other_maps(ODD, 3)
    for iteration in range(3):
        assert found.total(kind="feature_map", iteration=iteration) == expected
    weights = 4 * (_matrices(ODD) + 7 * 24)
    assert found.total(kind="weight") == weights
    # Two moments, and the number of steps of each of 3 * 9 + 2 tensors.
    assert found.total(kind="optimizer_state") == 2 * weights + 4 * 29


@pytest.mark.slow
def test_checkpointing_computes_layers_again(tmp_path: Path) -> None:
    found = _recorded(tmp_path, ODD, activation_checkpointing=True)
    kept = found.total(kind="feature_map", iteration=1, phase="forward")
    assert kept == ODD.layers * 4 * 3 * 10 * 24 + _other_maps(ODD, 3)
    again = found.total(kind="feature_map", iteration=1, phase="recompute")
    assert again == ODD.layers * _layer_maps(ODD, 3) > 0
    plain = _recorded(tmp_path, ODD)
    assert plain.select(phase="recompute") == []
    assert found.peak()[1] < plain.peak()[1]


def test_checkpointing_changes_neither_losses_nor_layers() -> None:
    trainers = [
        PyTorchTrainer(workload, ODD, Settings(batch_size=2, activation_checkpointing=again))
        for again in (False, True)
    ]
    layers = [
        [{k: v for k, v in x.items() if k != "feature_map_bytes"} for x in trainer.layers()]
        for trainer in trainers
    ]
    assert layers[0] == layers[1]
    losses = [_losses(trainer, 3) for trainer in trainers]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.slow
def test_accumulation_keeps_feature_maps_of_one_pass(tmp_path: Path) -> None:
    found = _recorded(tmp_path, ODD, batch_size=9, gradient_accumulation=3)
    one = _recorded(tmp_path, ODD, batch_size=3)
    maps = [
        max(
            total["feature_map"]
            for number, event in enumerate(log.events)
            if event.get("iteration") == 1 and (total := log.at(number))
        )
        for log in (found, one)
    ]
    assert maps[0] == maps[1]
    assert found.total(kind="weight_gradient", iteration=1) == one.total(
        kind="weight_gradient", iteration=1
    )
    assert found.total(kind="feature_map", iteration=1) == 3 * one.total(
        kind="feature_map", iteration=1
    )
