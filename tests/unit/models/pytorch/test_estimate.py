"""Feature maps of ResNet-50 and BERT by formulas, estimates, and the suite's memory files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from corpus import reference_rows  # noqa: E402
from memory_lines import Memory  # noqa: E402
from tbd_models import __main__ as program  # noqa: E402
from tbd_models.instrument.memory_file import MemoryFile  # noqa: E402
from tbd_models.instrument.memory_scratch_pytorch import Scratch  # noqa: E402
from tbd_models.instrument.memory_storages_pytorch import Place, Storages  # noqa: E402
from tbd_models.instrument.memory_training_pytorch import record_memory  # noqa: E402
from tbd_models.pytorch import memory  # noqa: E402
from tbd_models.pytorch.estimate import estimating  # noqa: E402
from tbd_models.registry import find, implementation, is_implemented, models  # noqa: E402
from tbd_models.resnet50 import Dimensions  # noqa: E402
from tbd_models.resnet50 import pytorch as resnet50  # noqa: E402
from tbd_models.settings import Settings  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def _estimate(path: Path, build: Any, dimensions: Any, batch: int, device: str = "cuda") -> Memory:
    settings = Settings(batch_size=batch, device=device)
    memory.estimated(build, dimensions, settings, path / "memory.jsonl")
    found = Memory(path / "memory.jsonl")
    found.check_conservation()
    assert found.header["estimated"] is True
    assert found.header["assumptions"]
    assert "t" not in found.events[0]
    return found


def _measure(path: Path, build: Any, dimensions: Any, batch: int) -> Memory:
    memory.measured(build, dimensions, Settings(batch_size=batch), path / "measured.jsonl")
    found = Memory(path / "measured.jsonl")
    found.check_conservation()
    return found


# ResNet-50.


def _resnet_formula(d: Dimensions, batch: int) -> dict[str | None, int]:
    """Return the feature maps of each layer from the shapes of outputs, in bytes."""
    with torch.device("meta"):
        model = resnet50.workload(d).model
        image = torch.empty(batch, 3, d.image_size, d.image_size)
    shapes: dict[str, int] = {}
    for name, module in model.named_modules():

        def note(module: nn.Module, _inputs: Any, output: Tensor, name: str = name) -> None:
            shapes[name] = output.numel()

        if not list(module.children()):
            module.register_forward_hook(note)
    model(image)
    found: dict[str | None, int] = {}
    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.AdaptiveAvgPool2d)):
            found[name] = 4 * shapes[name]  # input of the normalization, of the classifier
        elif isinstance(module, nn.MaxPool2d):
            found[name] = (4 + 8) * shapes[name]  # output and indices
        elif isinstance(module, nn.BatchNorm2d):
            # Mean and inverse deviation, and the output, which the ReLU overwrites. The output of
            # a shortcut is added to another map.
            output = 0 if name.endswith("downsample.1") else 4 * shapes[name]
            found[name] = 8 * module.num_features + output
    found[None] = 4 * batch * d.classes + 4  # logarithms of the loss, and its total weight
    return found


@pytest.mark.slow
@pytest.mark.parametrize("device", [pytest.param("cpu", marks=pytest.mark.nightly), "cuda"])
def test_resnet50_layers_follow_their_shapes(tmp_path: Path, device: str) -> None:
    d = Dimensions(image_size=96, classes=37, version="v1.5")
    found = _estimate(tmp_path, resnet50.workload, d, 3, device)
    for iteration in range(3):
        layers = found.layers(kind="feature_map", iteration=iteration)
        assert layers == _resnet_formula(d, 3)
    weights = 4 * sum(p.numel() for p in resnet50.workload(d).model.parameters())
    assert found.total(kind="weight") == weights
    assert found.total(kind="optimizer_state") == weights  # momentum
    assert found.total(kind="weight_gradient", iteration=1) == weights


@pytest.mark.slow
def test_resnet50_layers_are_those_of_the_reference(tmp_path: Path) -> None:
    table = reference_rows("memory/resnet50_feature_maps_by_layer.csv")
    rows = [row for row in table if row["batch_size"] == "8"]
    expected = {}
    for row in rows:
        name = row["layer"]
        if name.startswith("layer"):  # named as in torchvision
            name = f"stages.{int(name[5]) - 1}{name[6:]}"
        expected[None if name == "(loss)" else name] = int(row["feature_map_bytes_measured"])
    d = find("resnet50").variant("v1.5").dimensions
    found = _estimate(tmp_path, resnet50.workload, d, 8)
    assert found.layers(kind="feature_map", iteration=1) == expected
    assert sum(expected.values()) == 682_703_620
    # The reference's loop keeps neither the scores of 1000 classes nor the previous loss.
    assert found.peak()[1] - 4 * 8 * 1000 - 4 == 942_395_088


@pytest.mark.slow
def test_classes_at_the_peak_of_resnet50(tmp_path: Path) -> None:
    """The expected bytes are those of torch's MemTracker on a real step of the same loop."""
    with estimating(Settings(batch_size=2)):
        model = resnet50.ResNet(find("resnet50").variant("v1.5").dimensions)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        with record_memory(model, optimizer, tmp_path / "memory.jsonl"):
            for _ in range(2):
                x, y = torch.empty(2, 3, 224, 224), torch.empty(2, dtype=torch.int64)
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
    found = Memory(tmp_path / "memory.jsonl")
    event, peak = found.peak()
    assert peak == 440_446_624
    assert found.at(event) == {
        "weight": 102_228_128, "weight_gradient": 96_448_416, "optimizer_state": 102_228_128,
        "buffer": 212_904, "input": 1_204_240, "feature_map": 128_491_008,
        "activation_gradient": 9_633_796, "temporary": 4,
    }  # fmt: skip


# BERT.


def _bert_formula(batch: int, tokens: int, d: dict[str, int], mask: int) -> float:
    """Return the feature maps in bytes; dropout masks have ``mask`` bytes per element."""
    layers, hidden, heads = d["num_hidden_layers"], d["hidden_size"], d["num_attention_heads"]
    state = batch * tokens * hidden
    weights = batch * heads * tokens * tokens
    # Per layer 17 maps of the hidden size (inner layers have 4 times that) and 2 masks; softmax,
    # dropped attention weights and their mask; 2 normalizations with mean and deviation.
    layer = (4 * 16 + 2 * mask) * state + (8 + mask) * weights + 16 * batch * tokens
    embedding = (4 * 2 + mask) * state + 8 * batch * tokens
    head = (4 * 2 + mask) * batch * hidden + 8 * batch + 4
    return layers * layer + embedding + head + 8 * tokens  # positions in int64


def _bert(d: dict[str, int]) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(num_labels=2, attn_implementation="eager", **d)
    model: nn.Module = transformers.BertForSequenceClassification(config)
    return model.train()


def _bert_step(path: Path, d: dict[str, int], batch: int, tokens: int) -> Memory:
    model = _bert(d)
    ids = torch.zeros(batch, tokens, dtype=torch.int64)
    labels = torch.zeros(batch, dtype=torch.int64)
    with record_memory(model, None, path / "memory.jsonl"):
        nn.functional.cross_entropy(model(ids).logits, labels).backward()
    found = Memory(path / "memory.jsonl")
    found.check_conservation()
    return found


SMALL_BERT = {"num_hidden_layers": 3, "hidden_size": 24, "num_attention_heads": 3,
              "intermediate_size": 96, "vocab_size": 50}  # fmt: skip
BASE_BERT = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
             "intermediate_size": 3072}  # fmt: skip


def test_bert_on_a_cpu_follows_the_formula(tmp_path: Path) -> None:
    found = _bert_step(tmp_path, SMALL_BERT, 5, 17)
    assert found.total(kind="feature_map") == _bert_formula(5, 17, SMALL_BERT, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "mask", "expected"), [("cpu", 4, 228_922_388), ("cuda", 1, 200_016_404)]
)
def test_bert_base_by_estimate(tmp_path: Path, device: str, mask: int, expected: int) -> None:
    with estimating(Settings(batch_size=2, device=device)):
        found = _bert_step(tmp_path, BASE_BERT, 2, 128)
    assert _bert_formula(2, 128, BASE_BERT, mask) == expected
    assert found.total(kind="feature_map") == expected
    assert found.total(kind="weight") == 437_935_112
    assert found.total(kind="buffer") == 8192


def test_the_masks_of_an_estimate_end_with_it() -> None:
    with estimating(Settings(batch_size=1, device="cuda")):
        pass
    torch.manual_seed(0)
    dropped = nn.functional.dropout(torch.ones(100, requires_grad=True), 0.5)
    assert "NativeDropout" not in str(dropped.grad_fn)


# Estimates and measurements.

EVERY_TIME = ("resnet50", "maskrcnn", "seq2seq", "bert")  # one of each kind of network
AT_NIGHT = [pytest.param(name, marks=pytest.mark.nightly) for name in ("transformer", "llm")]


def _events(found: Memory) -> list[tuple[Any, ...]]:
    fields = ("action", "address", "bytes", "class", "layer", "phase", "iteration", "operator",
              "shape", "dtype")  # fmt: skip
    # Batches are copied or made.
    made = {"aten::clone": None, "aten::empty": None}
    return [
        tuple(made.get(event.get(field), event.get(field)) for field in fields)
        for event in found.events
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert", *AT_NIGHT])
def test_estimates_for_a_cpu_equal_measurements(tmp_path: Path, name: str) -> None:
    model = find(name)
    if name in ("bert", "llm"):
        pytest.importorskip("transformers")
    build = implementation(model, "pytorch").workload
    small = model.variant(None, "pytorch").small
    measured = _measure(tmp_path, build, small, 2)
    estimated = _estimate(tmp_path, build, small, 2, "cpu")
    assert estimated.peak()[1] == measured.peak()[1]
    assert estimated.at(estimated.peak()[0]) == measured.at(measured.peak()[0])
    for kind in ("feature_map", "weight_gradient", "optimizer_state", "input"):
        assert estimated.layers(kind=kind) == measured.layers(kind=kind)
    if name == "resnet50":  # clipping and Adam differ in scalars
        assert _events(estimated) == _events(measured)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(model.name, marks=() if model.name in EVERY_TIME else pytest.mark.nightly)
        for model in models()
        if is_implemented(model.name, "pytorch")
    ],
)
def test_the_suite_is_estimated(name: str, tmp_path: Path) -> None:
    if name in ("bert", "llm"):
        pytest.importorskip("transformers")
    model = find(name)
    build = implementation(model, "pytorch").workload
    found = _estimate(tmp_path, build, model.variant(None, "pytorch").small, 2)
    assert found.header["device_type"] == "cuda"
    counts = {found.total(kind="feature_map", iteration=number) for number in range(3)}
    assert len(counts) == 1
    assert min(counts) > 0
    # Feature maps end with the backward pass or the iteration.
    last = found.at(len(found.events) - 1)
    assert last["feature_map"] == last["weight_gradient"] == last["activation_gradient"] == 0
    assert last["optimizer_state"] >= last["weight"] / 2  # some weights are frozen


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tbd_models", "run", *arguments])
    return program.main()


@pytest.mark.slow
def test_the_program_writes_memory_layers_and_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = [f"--{name}={tmp_path / name}" for name in ("memory", "layers", "report")]
    small = ["resnet50", "--scale=small", "--batch-size=2", *files]
    for options in (["--device=cpu"], ["--estimate"]):
        assert _run(monkeypatch, *small, *options) == 0
        found = Memory(tmp_path / "memory")
        assert found.header["batch_size"] == 2
        assert found.header["device_type"] == ("cuda" if "--estimate" in options else "cpu")
        report = json.loads((tmp_path / "report").read_text())
        assert (report["status"], report["estimated"]) == ("ok", "--estimate" in options)
        layers = json.loads((tmp_path / "layers").read_text())["layers"]
        assert {x["name"] for x in layers} >= {x["layer"] for x in found.select(kind="weight")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layers", "memory", "report"]


def test_requests_without_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _run(monkeypatch, "resnet50", "--estimate")
    assert "--estimate needs --memory FILE" in capsys.readouterr().err


def test_a_failed_run_leaves_no_file(tmp_path: Path) -> None:
    def build(d: Any) -> Any:
        made = resnet50.workload(d)
        made.model.fc = nn.Linear(1, 1)
        return made

    small = find("resnet50").variant(None, "pytorch").small
    with pytest.raises(RuntimeError):
        _measure(tmp_path, build, small, 1)
    assert not list(tmp_path.iterdir())


# Scratch memory of GPU libraries, with counters of a made allocator.


class Counters:
    def __init__(self) -> None:
        self.now = self.top = 0

    def current(self) -> int:
        return self.now

    def peak(self) -> int:
        return self.top

    def reset(self) -> None:
        self.top = self.now

    def device_bytes(self) -> tuple[int, int, int]:
        return 3000 + self.now, 16_000, 1000 + self.now


def test_scratch_is_the_memory_that_no_storage_explains(tmp_path: Path) -> None:
    file = MemoryFile(tmp_path / "memory.jsonl", {})
    storages = Storages(file, torch.device("cpu"), Place())
    weight, batch = torch.zeros(10), torch.zeros(5)
    storages.adopt(weight, "weight")
    counters = Counters()
    counters.now = 40 + 20 + 100  # weight, batch, and 100 bytes of others
    scratch = Scratch(storages, counters)
    storages.adopt(batch, "input")
    scratch.begin()
    counters.top = counters.now + 7000 + 512
    counters.now += 512  # a workspace that the library keeps
    scratch.end("aten::mm")
    scratch.begin()
    scratch.end("aten::mm")
    scratch.read_device()
    storages.forget()
    file.close()
    found = Memory(tmp_path / "memory.jsonl")
    found.check_conservation()
    assert [e["bytes"] for e in found.select(kind="workspace")] == [512, 7000]
    assert found.select(bytes=7000)[0]["operator"] == "aten::mm"
    last = found.at(len(found.events) - 1)
    assert last == {"weight": 40, "input": 20, "unknown": 100, "workspace": 512}
    assert found.peak()[1] == 40 + 20 + 100 + 512 + 7000
    (reading,) = found.readings
    assert (reading["used"], reading["total"], reading["reserved"]) == (3672, 16_000, 1672)
