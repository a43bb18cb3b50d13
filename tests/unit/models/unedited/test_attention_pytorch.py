"""Sizes of attention on CUDA, from shapes on the CPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from tbd_models.unedited.attention_pytorch import attention_of_cuda  # noqa: E402


@pytest.mark.parametrize(("head", "kept"), [(16, [(2, 4, 40, 16), (2, 4, 64)]), (12, None)])
def test_the_fused_kernel_keeps_output_and_log_sums(
    head: int, kept: list[tuple[int, ...]] | None
) -> None:
    saved: list[tuple[int, ...]] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tuple(tensor.shape))
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
    with attention_of_cuda(), FakeTensorMode(), hooks:
        parts = [torch.rand(2, 4, 40, head, requires_grad=True) for _ in range(3)]
        output = scaled_dot_product_attention(*parts, dropout_p=0.1)
        assert output.shape == (2, 4, 40, head)
        output.sum().backward()
        assert all(part.grad is not None and part.grad.shape == part.shape for part in parts)
    if kept is None:  # matrix products keep the probabilities
        assert any(shape[-2:] == (40, 40) for shape in saved)
    else:
        assert saved == [(2, 4, 40, 16)] * 3 + kept


def test_real_attention_has_values() -> None:
    parts = [torch.rand(1, 2, 8, 8) for _ in range(3)]
    expected = scaled_dot_product_attention(*parts)
    with attention_of_cuda():
        assert torch.allclose(scaled_dot_product_attention(*parts), expected, atol=1e-5)
