"""Let attention on fake tensors have the sizes of CUDA's memory-efficient kernel.

Sizes of ``aten::_scaled_dot_product_efficient_attention``: it keeps the output and the log-sum-exp,
padded to 32 rows, whatever the dropout and the mask. The CPU keeps all probabilities with dropout.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

ASSUMED = "attention as by the memory-efficient kernel of CUDA"
_ROWS = 32  # to which the log-sum-exp is padded
_ALIGNED = 8  # elements of a head; other sizes use matrix products


@contextmanager
def attention_of_cuda() -> Iterator[None]:
    """Replace the attention of fake tensors in the block."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("scaled_dot_product_attention", _attention, "AutogradCPU")
        yield


def _attention(  # noqa: PLR0917  (as in ATen)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    is_fused = query.dim() == 4 and not query.shape[-1] % _ALIGNED and not enable_gqa
    if is_fused and isinstance(query, FakeTensor):
        output: Tensor = _Efficient.apply(query, key, value, mask)
        return output
    return torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, mask, dropout, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


class _Efficient(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> Tensor:
        size, heads, rows, _ = query.shape
        output = query.new_empty(*query.shape[:-1], value.shape[-1])
        padded = -(-rows // _ROWS) * _ROWS
        sums = query.new_empty(size, heads, padded, dtype=torch.float32)
        context.save_for_backward(query, key, value, mask, output, sums)
        return output

    @staticmethod
    def backward(context: Any, *_gradients: Any) -> tuple[Tensor | None, ...]:
        query, key, value, *_ = context.saved_tensors
        query.new_empty(query.shape[:-1], dtype=torch.float32)  # products of output and gradient
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), None
