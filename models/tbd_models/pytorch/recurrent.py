"""Recurrent layers whose work can be counted without running them step by step."""

from __future__ import annotations

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
