"""Memory of a training loop in PyTorch: classes, layers and phases of small networks.

Expected bytes follow from the shapes; float32 has 4 bytes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import tbd_trace  # noqa: E402
from memory_lines import Memory, size  # noqa: E402
from tbd_models.instrument import training_marks_pytorch  # noqa: E402
from tbd_models.instrument.marks import MEMORY_VARIABLE, NoMarks  # noqa: E402
from tbd_models.instrument.memory_training_pytorch import record_memory  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

N, WIDTH = 8, 256
MAP = 4 * N * WIDTH
WEIGHT = 4 * WIDTH * WIDTH


def _recorded(
    path: Path, model: nn.Module, steps: Callable[[Any], object], optimizer: Any = None
) -> Memory:
    with record_memory(model, optimizer, path / "memory.jsonl") as memory:
        steps(memory)
    found = Memory(path / "memory.jsonl")
    found.check_conservation()
    assert [entry.name for entry in path.iterdir()] == ["memory.jsonl"]
    return found


def _linear() -> nn.Linear:
    return nn.Linear(WIDTH, WIDTH, bias=False)


class Blocks(nn.Module):
    """Three blocks of two linear layers with sigmoids."""

    def __init__(self, checkpointing: bool | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(_linear(), nn.Sigmoid(), _linear(), nn.Sigmoid()) for _ in range(3)
        )
        self.reentrant = checkpointing

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


def _blocks(path: Path, checkpointing: bool | None) -> tuple[Memory, Memory]:
    """Return the memory up to the end of the forward pass, and of the whole step."""
    x = torch.randn(N, WIDTH)
    if checkpointing:
        x.requires_grad_()  # reentrant checkpointing needs an input with gradient
    model = Blocks(checkpointing)
    for name in ("forward", "step"):
        (path / name).mkdir()
    kept = []
    forward = _recorded(path / "forward", model, lambda _: kept.append(model(x).sum()))
    kept.clear()
    step = _recorded(path / "step", model, lambda _: model(x).sum().backward())
    return forward, step


def test_without_checkpointing_sigmoids_are_feature_maps(tmp_path: Path) -> None:
    forward, step = _blocks(tmp_path, None)
    assert forward.total(kind="feature_map") == step.total(kind="feature_map") == 6 * MAP
    assert step.total(kind="input") == MAP
    assert step.total(phase="recompute") == 0
    assert step.layers(kind="feature_map") == {
        f"blocks.{block}.{layer}": MAP for block in range(3) for layer in (1, 3)
    }
    assert step.peak()[1] == 3_162_120


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_keeps_inputs_of_blocks_and_computes_the_rest_again(
    tmp_path: Path, reentrant: bool
) -> None:
    forward, step = _blocks(tmp_path, reentrant)
    last = len(forward.events) - 1
    # The outputs of blocks 1 and 2 are the inputs of blocks 2 and 3; the sum needs no values.
    assert forward.at(last)["feature_map"] == 2 * MAP
    assert step.total(phase="recompute") == 3 * 4 * MAP
    again = step.select(phase="recompute", kind="feature_map")
    assert size(again) == 6 * MAP
    assert {entry["layer"] for entry in again} == {
        f"blocks.{block}.{layer}" for block in range(3) for layer in (1, 3)
    }
    gradients = step.layers(kind="weight_gradient")
    assert gradients == {
        f"blocks.{block}.{layer}": WEIGHT for block in range(3) for layer in (0, 2)
    }
    if not reentrant:
        # At the end of the backward pass all gradients are live, and nothing was gained.
        assert step.peak()[1] == 3_162_120


def test_checkpointing_of_a_function_without_modules(tmp_path: Path) -> None:
    model = _linear()

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.inner(x)
            return checkpoint(lambda v: v.sigmoid().exp(), y, use_reentrant=False)

    outer, x = Outer(), torch.randn(N, WIDTH)
    found = _recorded(tmp_path, outer, lambda _: outer(x).sum().backward())
    assert found.total(phase="recompute", kind="feature_map") == 2 * MAP
    assert found.total(phase="forward", kind="feature_map") == MAP


def test_accumulated_gradients_exist_once(tmp_path: Path) -> None:
    model = nn.Sequential(_linear(), nn.ReLU(), _linear())

    def step(_: Any) -> None:
        for _micro_batch in range(4):
            model(torch.randn(N, WIDTH)).sum().backward()

    found = _recorded(tmp_path, model, step)
    assert found.total(kind="weight_gradient") == 2 * WEIGHT == 524_288
    assert found.layers(kind="weight_gradient") == {"0": WEIGHT, "2": WEIGHT}
    assert found.total(kind="input") == 4 * MAP


def test_tied_weights_count_once(tmp_path: Path) -> None:
    embedding = nn.Embedding(1000, 64)
    output = nn.Linear(64, 1000, bias=False)
    output.weight = embedding.weight
    model = nn.Sequential(embedding, output)
    tokens = torch.arange(10)
    found = _recorded(tmp_path, model, lambda _: model(tokens).sum().backward())
    assert found.layers(kind="weight") == {"0": 256_000}
    assert found.total(kind="weight_gradient") == 256_000


def test_two_views_of_a_storage_are_one_feature_map(tmp_path: Path) -> None:
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, 2 * WIDTH, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            first, second = self.linear(x).chunk(2, 1)
            return first * second

    model, x = Halves(), torch.randn(N, WIDTH)
    found = _recorded(tmp_path, model, lambda _: model(x).sum().backward())
    assert found.layers(kind="feature_map") == {"linear": 2 * MAP}
    assert 2 * MAP == 16_384


def test_an_in_place_relu_shares_its_feature_map(tmp_path: Path) -> None:
    model, x = nn.Sequential(_linear(), nn.ReLU(inplace=True)), torch.randn(N, WIDTH)
    found = _recorded(tmp_path, model, lambda _: model(x).sum().backward())
    assert found.layers(kind="feature_map") == {"0": 8192}


def test_kept_losses_grow_by_their_graphs(tmp_path: Path) -> None:
    model, x = nn.Sequential(_linear(), nn.ReLU()), torch.randn(N, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses, ends = [], []

    def loop(_: Any) -> None:
        for _number in range(4):
            loss = model(x).sum()
            loss.backward(retain_graph=True)
            losses.append(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.clear()

    found = _recorded(tmp_path, model, loop, optimizer)
    for number in range(1, 4):  # first events of iterations 1 to 3
        first = min(entry["born"] for entry in found.select(iteration=number))
        ends.append(found.running()[first - 1])
    # A loss, and the output of the ReLU that its graph holds.
    assert [later - sooner for sooner, later in itertools.pairwise(ends)] == [8196, 8196]


def test_classes_of_a_step(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Flatten(),
                          nn.Linear(4 * 36, 5))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters())

    def loop(_: Any) -> None:
        for _number in range(2):
            x, y = torch.randn(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64)
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()

    found = _recorded(tmp_path, model, loop, optimizer)
    parameters = {"0": 4 * 4 * 27, "1": 4 * 8, "3": 4 * (5 * 144 + 5)}
    assert found.layers(kind="weight") == parameters
    assert found.layers(kind="buffer") == {"1": 4 * 8 + 8}
    assert found.layers(kind="weight_gradient", iteration=1) == parameters
    # Two moments, and a step count per parameter.
    counts = {"0": 4, "1": 8, "3": 8}
    state = {layer: 2 * weights + counts[layer] for layer, weights in parameters.items()}
    assert found.layers(kind="optimizer_state") == state
    assert {entry["iteration"] for entry in found.select(kind="optimizer_state")} == {0}
    # The loss keeps the logarithms and the total weight.
    maps = {"0": 4 * 2 * 4 * 36, "1": 4 * 2 * 4 * 36 + 8 * 4, None: 4 * 2 * 5 + 4}
    assert found.layers(kind="feature_map", iteration=1) == maps
    assert found.total(kind="input", iteration=1) == 4 * 2 * 3 * 64 + 8 * 2
    assert {e["phase"] for e in found.select(kind="optimizer_temporary")} == {"optimizer"}
    assert {e["phase"] for e in found.select(kind="activation_gradient")} == {"backward"}
    (weights, *_) = found.select(layer="0", kind="feature_map")
    assert (weights["operator"], weights["shape"]) == ("aten::convolution", "2x4x6x6")
    assert weights["dtype"] == "float32"
    times = [event["t"] for event in found.events]
    assert times == sorted(times)


def test_a_gradient_penalty_is_part_of_the_forward_pass(tmp_path: Path) -> None:
    model = nn.Sequential(_linear(), nn.Sigmoid(), nn.Linear(WIDTH, 1))

    def step(_: Any) -> None:
        x = torch.randn(N, WIDTH, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()

    found = _recorded(tmp_path, model, step)
    assert found.total(phase="recompute") == 0
    assert found.total(kind="feature_map") > MAP
    assert {e["phase"] for e in found.select(kind="feature_map")} == {"forward"}


def test_tensors_kept_by_a_function_are_feature_maps(tmp_path: Path) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Tensor) -> Tensor:
            context.double = 2 * x  # not by save_for_backward
            return x * x

        @staticmethod
        def backward(context: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * context.double

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = _linear()

        def forward(self, x: Tensor) -> Any:
            return Square.apply(self.linear(x))

    model, x = Model(), torch.randn(N, WIDTH)
    found = _recorded(tmp_path, model, lambda _: model(x).sum().backward())
    assert found.total(kind="feature_map") == MAP


def test_inference_has_no_gradients_and_no_feature_maps(tmp_path: Path) -> None:
    model, x = Blocks(), torch.randn(N, WIDTH)

    def evaluate(_: Any) -> None:
        with torch.no_grad():
            model(x)

    found = _recorded(tmp_path, model, evaluate)
    assert {e["class"] for e in found.lifetimes} == {"weight", "input", "temporary"}
    assert {e["phase"] for e in found.select(kind="temporary")} == {"forward"}


def test_peak_and_end_are_those_of_torch_memory_tracker(tmp_path: Path) -> None:
    from torch.distributed._tools.mem_tracker import MemTracker

    def made() -> tuple[nn.Module, Any, Tensor, Tensor]:
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3), nn.Dropout(0.5), nn.Flatten(), nn.Linear(16 * 13 * 13, 10),
        )  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
        return model, optimizer, torch.randn(4, 3, 32, 32), torch.zeros(4, dtype=torch.int64)

    def step(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> None:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    parts = made()
    tracker = MemTracker()
    tracker.track_external(*parts)
    with tracker:
        step(*parts)
    device = torch.device("cpu")
    peak, end = (tracker.get_tracker_snapshot(at)[device]["Total"] for at in ("peak", "current"))
    model, optimizer, *_ = parts = made()
    found = _recorded(tmp_path, model, lambda _: step(*parts), optimizer)
    assert (found.peak()[1], found.running()[-1]) == (peak, end)


# The public function.


def _loop(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        torch.manual_seed(1)
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def _small() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize("marked", [True, False])
def test_instrument_records_three_iterations(
    tmp_path: Path, marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_marks_pytorch, "NvtxMarks", NoMarks)
    backward = torch.autograd.backward
    plain = _loop(*_small(), 5)
    model, optimizer = _small()
    path = tmp_path / "m.jsonl"
    marks = tbd_trace.instrument(model, optimizer if marked else None, batch_size=3, memory=path)
    assert _loop(model, optimizer, 5) == plain
    found = Memory(path)  # published after the third iteration
    found.check_conservation()
    assert {e.get("iteration") for e in found.lifetimes} == {None, 0, 1, 2}
    assert found.header["batch_size"] == 3
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    marks.remove()
    assert torch.autograd.backward is backward
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    from torch.optim import optimizer as hooks

    assert not hooks._global_optimizer_post_hooks
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.jsonl"]


def test_the_file_of_true_and_a_short_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, str(tmp_path / "here.jsonl"))
    model, optimizer = _small()
    marks = tbd_trace.instrument(model, memory=True)
    _loop(model, optimizer, 1)
    assert not (tmp_path / "here.jsonl").exists()
    marks.remove()
    assert len(Memory(tmp_path / "here.jsonl").select(kind="weight")) == 4


def test_marks_need_an_optimizer() -> None:
    with pytest.raises(ValueError, match="optimizer"):
        tbd_trace.instrument(_small()[0])


def test_an_error_in_a_layer_leaves_later_layers_right(tmp_path: Path) -> None:
    model, optimizer = _small()

    def loop(_: Any) -> None:
        with pytest.raises(RuntimeError):
            model(torch.randn(3, 5))
        _loop(model, optimizer, 1)

    found = _recorded(tmp_path, model, loop, optimizer)
    assert found.layers(kind="feature_map")["1"] == 4 * 3 * 8


def test_workers_of_a_data_loader_write_nothing(tmp_path: Path) -> None:
    model, optimizer = _small()
    data = torch.utils.data.TensorDataset(torch.randn(6, 4))

    def loop(_: Any) -> None:
        for (x,) in torch.utils.data.DataLoader(data, 3, num_workers=1):
            model(x).sum().backward()
            optimizer.step()

    found = _recorded(tmp_path, model, loop, optimizer)
    assert found.total(kind="feature_map") > 0
    lines = (tmp_path / "memory.jsonl").read_text().splitlines()
    assert all(json.loads(line) for line in lines)
