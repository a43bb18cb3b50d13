"""Recurrent layers that also run where PyTorch's own do not, or only slowly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn


class GRU(nn.GRU):
    """One GRU layer over (steps, N, inputs), without an initial state."""

    def forward(  # type: ignore[override]  # packed sequences are not taken
        self, x: Tensor, hx: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the states of all steps (steps, N, directions x hidden), and the last ones.

        Tensors without data take all steps at once: the matrix products have the sizes of the
        fused layer's, and nobody waits for thousands of steps of which nothing is computed.
        """
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
    """LSTM layers, also in mixed precision on a CPU without AVX-512."""

    def forward(  # type: ignore[override]  # packed sequences are not taken
        self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the states of all steps and the last ones, as ``nn.LSTM`` does.

        Under autocast PyTorch asks oneDNN for an LSTM in bfloat16. Where oneDNN has none PyTorch
        fails, so there it is not asked.
        """
        lacking = x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not _has_avx512()
        with _without_onednn() if lacking else contextlib.nullcontext():
            states, last = super().forward(x, hx)
        return states, last


def _has_avx512() -> bool:
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    onednn: Any = torch.backends.mkldnn  # its own context manager warns, about Intel's GPUs
    before, onednn.enabled = onednn.enabled, False
    try:
        yield
    finally:
        onednn.enabled = before
