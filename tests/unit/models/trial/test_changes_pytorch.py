"""Changes of a running PyTorch program: what each of them sets."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

from tbd_models.trial import changes_pytorch  # noqa: E402
from tbd_models.trial.changes_pytorch import apply_at_import, apply_to_models  # noqa: E402

CHANGED = [
    (DataLoader, "__init__"), (DistributedDataParallel, "__init__"), (torch.Tensor, "to"),
    (torch.Tensor, "cuda"), (torch.optim.Adam, "__init__"), (torch.optim.AdamW, "__init__"),
    (torch.optim.SGD, "__init__"), (torch.optim.Adagrad, "__init__"),
    (torch.backends.cudnn, "benchmark"), (torch.backends.cudnn, "allow_tf32"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for owner, name in CHANGED:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    gc.enable()
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _nothing_acted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_pytorch, "acted", False)


def test_a_change_without_anything_to_change_has_not_acted() -> None:
    apply_at_import("workers=2")
    assert not changes_pytorch.acted
    DataLoader([1])
    assert changes_pytorch.acted


@pytest.mark.parametrize("change", ["threads=1", "tf32"])
def test_settings_act_at_once(change: str) -> None:
    apply_at_import(change)
    assert changes_pytorch.acted


def test_loader_workers() -> None:
    apply_at_import("workers=3")
    loader = DataLoader([1, 2, 3], 2, num_workers=0)
    assert (loader.num_workers, loader.persistent_workers, loader.batch_size) == (3, True, 2)


def test_pinned_memory() -> None:
    apply_at_import("pinned")
    assert DataLoader([1], pin_memory=False).pin_memory
    assert torch.ones(2).to("cpu", torch.float64).dtype is torch.float64


@pytest.mark.parametrize("kind", ["fused", "foreach"])
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_optimizers(name: str, kind: str) -> None:
    apply_at_import(f"{kind}_optimizer")
    other = {"fused": "foreach", "foreach": "fused"}[kind]
    made = getattr(torch.optim, name)([nn.Parameter(torch.ones(2))], lr=0.1, **{other: True})
    assert made.defaults[kind] and not made.defaults[other]
    assert made.defaults["lr"] == 0.1


def test_settings() -> None:
    for change in ("tf32", "cudnn_benchmark", "threads=1"):
        apply_at_import(change)
    assert torch.get_float32_matmul_precision() == "high"
    assert torch.backends.cudnn.benchmark and torch.backends.cudnn.allow_tf32
    assert torch.get_num_threads() == 1


def test_larger_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def init(self: Any, module: Any, bucket_cap_mb: Any = None) -> None:
        given["bucket_cap_mb"] = bucket_cap_mb

    monkeypatch.setattr(DistributedDataParallel, "__init__", init)
    apply_at_import("bucket=50")
    DistributedDataParallel.__new__(DistributedDataParallel).__init__(nn.Linear(1, 1))
    assert given == {"bucket_cap_mb": 50}


def test_mixed_precision_computes_in_bf16_and_returns_fp32() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    seen = []
    model[0].register_forward_hook(lambda _m, _i, out: seen.append(out.dtype))
    apply_to_models("amp", [model], [model])
    out = model(torch.ones(2, 4))
    assert (seen, out.dtype) == ([torch.bfloat16], torch.float32)
    out.sum().backward()
    assert model[0].weight.grad is not None


def test_channels_last() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3))
    apply_to_models("channels_last", [model], [model])
    out = model(torch.ones(2, 3, 8, 8))
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_garbage_is_not_collected() -> None:
    apply_to_models("no_gc", [], [])
    assert not gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_compiled_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function: lambda x: function(x) + 1)
    model = nn.Identity()
    apply_to_models("compile", [model], [model])
    assert model(torch.zeros(1)).item() == 1
