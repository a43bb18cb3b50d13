/*
title    = "Work of a step"
question = "How much work does a step do: operations, inputs, gradients, updates, exchanges?"
source   = """process_work: shapes of the inputs of operators, kernels, copies and collectives.
    `tbd-trace diff` compares it to say whether two runs do the same work"""
grain    = "process with iterations; means over the iterations in the window"
needs    = ["process_work"]
optional = ["process"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "iterations", "batch", "sequence", "rows", "positions", "parameters",
    "forward_flop", "forward_size", "backward_flop", "recomputed_flop", "flop_error_pct",
    "trained_values", "losses", "loss_values", "updated_values", "update", "has_backward",
    "has_optimizer", "input_bytes", "collectives", "exchanged_values", "kernels", "matrix_kernels",
    "precision", "is_compiled", "uses_graphs", "evidence",
]
[advice]
missing = "needs iterations; {steps}"
*/
SELECT w.trace_id, p.pid, w.* EXCLUDE (trace_id, process_id)
FROM process_work AS w
LEFT JOIN process AS p ON p.trace_id = w.trace_id AND p.process_id = w.process_id
ORDER BY w.trace_id, p.pid, w.process_id
