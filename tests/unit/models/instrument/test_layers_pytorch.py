"""Sizes and operations of layers against torch's own counter and formulas by hand."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tbd_models.instrument.layers_pytorch import _FORMULAS, Layer, measure  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def _measured(model: nn.Module, x: Any) -> dict[str, Layer]:
    def step() -> None:
        out = model(x)
        (out[0] if isinstance(out, tuple) else out).float().sum().backward()

    return {layer.name: layer for layer in measure(model, step)}


def _block(kind: str, channels: int) -> nn.Module:
    return {
        "conv": nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        "transposed": nn.ConvTranspose2d(channels, channels, 3, padding=1),
        "linear": nn.Linear(6, 6),
        "norm": nn.BatchNorm2d(channels),
        "relu": nn.ReLU(),
    }[kind]


@pytest.mark.parametrize(("channels", "groups"), [(8, 1), (8, 2), (8, 8)])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_convolution_in_groups_by_hand(channels: int, groups: int, device: str) -> None:
    """Every output takes the channels of its group alone, in both gradients too."""
    with torch.device(device):
        model = nn.Sequential(
            nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, 4 * groups, 3, groups=groups)
        )
        x = torch.zeros(2, channels, 5, 6)
    grouped = _measured(model, x)["1"]
    assert grouped.forward_flop == 2 * (2 * 3 * 4) * (4 * groups) * (channels // groups) * 9
    assert grouped.backward_flop == 2 * grouped.forward_flop


@pytest.mark.slow
@given(
    kinds=st.lists(
        st.sampled_from(["conv", "transposed", "linear", "norm", "relu"]),
        min_size=1,
        max_size=5,
    ),
    channels=st.integers(1, 4),
    batch=st.integers(1, 3),
    meta=st.booleans(),
)
@settings(max_examples=25)
def test_operations_are_those_of_the_counter_of_torch(
    kinds: list[str], channels: int, batch: int, meta: bool
) -> None:
    with torch.device("meta" if meta else "cpu"):
        model = nn.Sequential(
            nn.Conv2d(channels, channels, 1), *(_block(kind, channels) for kind in kinds)
        )
        x = torch.zeros(batch, channels, 5, 6)
    with FlopCounterMode(display=False) as forward:
        loss = model(x).sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    model.zero_grad()
    layers = _measured(model, x)
    assert sum(layer.forward_flop for layer in layers.values()) == forward.get_total_flops()
    assert sum(layer.backward_flop for layer in layers.values()) == backward.get_total_flops()
    by_layer = forward.get_flop_counts()
    for number in range(len(kinds) + 1):
        expected = sum(by_layer.get(f"Sequential.{number}", {}).values())
        assert layers[str(number)].forward_flop == expected


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.frozen = nn.Linear(3, 3).requires_grad_(False)
        self.scores = nn.Linear(3, 7)
        self.scores.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        return self.scores(self.frozen(self.embedding(x)) * self.scale)


def test_parameters_add_up_and_tied_ones_count_once() -> None:
    model = Tied()
    layers = _measured(model, torch.tensor([[1, 2]]))
    assert [*layers] == ["embedding", "frozen", "Tied", "scores"]
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert sum(layer.parameters for layer in layers.values()) == trained
    sizes = {n: (v.parameters, v.weight_bytes, v.gradient_bytes) for n, v in layers.items()}
    assert sizes == {
        "embedding": (21, 84, 84),
        "frozen": (0, 48, 0),
        "Tied": (3, 12, 12),
        "scores": (7, 28, 28),
    }


# Gates of each kind of cell.
RECURRENT = [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)]


@pytest.mark.parametrize(("kind", "gates"), RECURRENT)
@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("meta", [False, True])
def test_recurrent_layers_are_counted(kind: Any, gates: int, ways: int, meta: bool) -> None:
    steps, batch, inputs, width, depth = 6, 3, 5, 7, 2
    with torch.device("meta" if meta else "cpu"):
        model = kind(inputs, width, depth, bidirectional=ways == 2)
        x = torch.zeros(steps, batch, inputs)
    (layer,) = _measured(model, x).values()
    elements = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    forward = 2 * steps * batch * elements
    assert layer.forward_flop == forward
    if kind is nn.LSTM and not meta:  # one operation, which computes all gradients in any case
        assert layer.backward_flop == 2 * forward
        return
    # Step by step nobody computes the gradients of the input and of the first states.
    input_gradient = 2 * steps * batch * gates * width * inputs * ways
    state_gradient = 2 * batch * gates * width * width * depth * ways
    assert layer.backward_flop == 2 * forward - input_gradient - state_gradient


class Attention(nn.Module):
    def __init__(self, fused: bool, causal: bool = False) -> None:
        super().__init__()
        self.fused = fused
        self.causal = causal

    def forward(self, query: Any, key: Any, value: Any) -> Any:
        if self.fused:
            return nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=self.causal
            )
        return (query @ key.transpose(-1, -2)).softmax(-1) @ value


def test_fused_attention_counts_like_its_matrix_products() -> None:
    flop = []
    for fused in (True, False):
        model = Attention(fused)
        query = torch.randn(2, 3, 5, 8, requires_grad=True)
        key, value = (torch.randn(2, 3, 7, 8, requires_grad=True) for _ in range(2))
        (layer,) = measure(model, lambda m=model, o=(query, key, value): m(*o).sum().backward())
        flop.append((layer.forward_flop, layer.backward_flop))
    forward = 4 * 2 * 3 * 5 * 7 * 8
    assert flop == [(forward, 2 * forward)] * 2


def test_causal_attention_counts_half() -> None:
    """Of an average position's products with n others, those with later positions are left out."""
    operands = [torch.randn(2, 3, 64, 8, requires_grad=True) for _ in range(3)]
    (layer,) = measure(
        model := Attention(fused=True, causal=True), lambda: model(*operands).sum().backward()
    )
    pairs = sum(range(64)) + 64 / 2  # position i sees those before it, and counts half itself
    assert layer.forward_flop == 4 * 2 * 3 * pairs * 8
    assert layer.backward_flop == 2 * layer.forward_flop


def test_checkpointed_layers_count_once() -> None:
    x = torch.randn(2, 4)
    model = nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 3))

    def step(again: bool) -> None:
        out = checkpoint(model, x, use_reentrant=False) if again else model(x)
        out.sum().backward()

    plain, checkpointed = (measure(model, lambda a=a: step(a)) for a in (False, True))
    assert plain == checkpointed
    assert sum(layer.forward_flop for layer in plain) == 2 * 2 * (4 * 6 + 6 * 3)


@pytest.mark.parametrize("kind", ["flash", "efficient", "cudnn"])
def test_fused_attention_of_gpus_takes_the_arguments_that_the_formulas_want(kind: str) -> None:
    operation = f"_scaled_dot_product_{kind}_attention"
    for name, first in ((operation, 0), (f"{operation}_backward", 1)):
        assert f"aten.{name}" in _FORMULAS
        schema = getattr(torch.ops.aten, name).default._schema
        names = [argument.name for argument in schema.arguments]
        assert names[first : first + 3] == ["query", "key", "value"]
        assert "is_causal" in names


class Shapes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 6)
        self.relu = nn.ReLU(inplace=True)
        self.flatten = nn.Flatten(0)
        self.identity = nn.Identity()
        self.last = nn.Linear(12, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.identity(self.flatten(self.relu(self.linear(x)))))


def test_feature_maps_leave_out_views_and_what_happens_in_place() -> None:
    layers = _measured(Shapes(), torch.randn(2, 4))
    bytes_of = {name: layer.feature_map_bytes for name, layer in layers.items()}
    assert bytes_of == {"linear": 2 * 6 * 4, "relu": 0, "last": 2 * 4}


def test_the_batch_is_no_feature_map_of_what_changes_it_in_place() -> None:
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3))
    layers = _measured(model, torch.randn(2, 4))
    assert [layer.feature_map_bytes for layer in layers.values()] == [0, 2 * 3 * 4]


class Loop(nn.Module):
    """Tensors come and go, so that their addresses are given out again."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.alive: list[Any] = []

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            for _ in range(20):
                out = self.linear(x)
                self.alive.append(weakref.ref(out))
        return self.linear(x)


def test_every_feature_map_counts_and_none_is_kept() -> None:
    model = Loop()
    layers = _measured(model, torch.randn(2, 64))
    assert layers["linear"].feature_map_bytes == 21 * 2 * 64 * 4
    assert all(reference() is None for reference in model.alive)


def test_entry_is_per_sample_and_unknown_without_a_batch_size() -> None:
    layer = _measured(nn.Linear(3, 5), torch.randn(4, 3))["Linear"]
    entry = layer.entry(4)
    assert entry == {
        "name": "Linear",
        "type": "Linear",
        "parameters": 20,
        "weight_bytes": 80,
        "gradient_bytes": 80,
        "feature_map_bytes": 20,
        "forward_flop": 30.0,
        "backward_flop": 30.0,
        "precision": "fp32",
    }
    assert set(entry) - set(layer.entry(None)) == {
        "feature_map_bytes", "forward_flop", "backward_flop"
    }  # fmt: skip


def test_precision_is_that_of_the_operands() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    x = torch.randn(2, 3)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            out = model(x)
        out.sum().backward()

    precision = {layer.name: layer.precision for layer in measure(model, step)}
    assert precision == {"0": "bf16", "1": None}


def test_an_error_in_the_step_ends_the_measurement() -> None:
    model = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="shapes"):
        measure(model, lambda: model(torch.zeros(1, 4)))
    assert not model._forward_hooks
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
