"""Work of a step of the sample of torch.profiler, from its network: two products and a loss."""

from __future__ import annotations

from sample_facts import Row
from worked_torch import BATCH, STEP_FLOP, STEPS, events, trace_id, works

INPUTS, HIDDEN, OUTPUTS = 256, 512, 128


def step_work() -> list[Row]:
    forward = 2 * BATCH * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
    kernels = [work for work in works() if work.event.cat == "kernel"]
    matrix = [work for work in kernels if "gemm" in work.event.name]
    (update,) = {
        str(event.args["Input Dims"]) for event in events() if event.name == "aten::_foreach_add_"
    }
    assert update.startswith(f"[[{HIDDEN}, {INPUTS}]")
    return [
        {
            "trace_id": trace_id(),
            "pid": 4242,
            "iterations": STEPS - 1,  # without the warm-up
            "batch": None,
            "sequence": None,
            "rows": float(BATCH),
            "positions": None,
            "parameters": float(INPUTS * HIDDEN + HIDDEN * OUTPUTS),
            "forward_flop": float(forward),
            "forward_size": float(forward),
            "backward_flop": float(STEP_FLOP - forward),
            "recomputed_flop": 0.0,
            "flop_error_pct": 0.0,
            "trained_values": None,
            "losses": 1.0,
            "loss_values": float(BATCH * OUTPUTS),
            # The trace records the first of the updated tensors.
            "updated_values": float(HIDDEN * INPUTS),
            "update": "add",
            "has_backward": True,
            "has_optimizer": True,
            "input_bytes": float(BATCH * INPUTS * 2),
            "collectives": 0.0,
            "exchanged_values": 0.0,
            "kernels": len(kernels) / STEPS,
            "matrix_kernels": len(matrix) / STEPS,
            "precision": "float16",
            "is_compiled": False,
            "uses_graphs": False,
            "evidence": "shapes",
        }
    ]
