"""Recurrent layers that also work where PyTorch's own fail or are slow."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn


class GRU(nn.GRU):
    """A GRU layer over (steps, N, inputs) without initial state."""

    def forward(  # type: ignore[override]  # packed sequences are not taken
        self, x: Tensor, hx: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the states of all steps (steps, N, directions x hidden) and the last ones."""
        # On meta tensors PyTorch would loop over thousands of steps. Matrix products over all
        # steps at once have the FLOP of the fused layer.
        if not x.is_meta:
            states, last = super().forward(x, hx)
            return states, last
        ways = [self._at_once(x, "")]
        if self.bidirectional:
            ways.append(self._at_once(x, "_reverse"))
        return torch.cat(ways, -1), torch.stack([way[-1] for way in ways])

    def _at_once(self, x: Tensor, way: str) -> Tensor:
        def product(of: Tensor, kind: str) -> Tensor:
            weight, bias = (getattr(self, f"{what}_{kind}_l0{way}") for what in ("weight", "bias"))
            return nn.functional.linear(of, weight, bias)

        before = product(x, "ih")[..., : self.hidden_size]
        return product(before, "hh")[..., : self.hidden_size]


class LSTM(nn.LSTM):
    """LSTM layers that also work in mixed precision on a CPU without AVX-512."""

    def forward(  # type: ignore[override]  # packed sequences are not taken
        self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the states of all steps and the last ones, like ``nn.LSTM``."""
        # Under autocast PyTorch requests a bfloat16 LSTM from oneDNN and fails if there is none.
        lacking = x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not _has_avx512()
        with without_onednn() if lacking else contextlib.nullcontext():
            states, last = super().forward(x, hx)
        return states, last


def _has_avx512() -> bool:
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


@contextlib.contextmanager
def without_onednn() -> Iterator[None]:
    """Compute recurrent layers step by step in the block, not by oneDNN's fused layer."""
    onednn: Any = torch.backends.mkldnn  # its context manager warns about Intel GPUs
    before, onednn.enabled = onednn.enabled, False
    try:
        yield
    finally:
        onednn.enabled = before
