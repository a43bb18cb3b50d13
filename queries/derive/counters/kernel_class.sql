/*
title    = "Class of each kernel name"
question = "What kind of work does a kernel do: convolution, GEMM, normalization, …?"
source   = """data/kernel_classes.csv: naming conventions of cuDNN, cuBLAS, CUTLASS, PyTorch,
    TensorFlow, XLA, MXNet and others"""
needs    = ["kernel_classes"]
optional = ["kernel", "kernel_aggregate"]
grain    = "kernel name, per trace"
returns = ["trace_id", "name", "class", "direction", "tensor_core", "pattern", "evidence"]
[columns]
name = "kernel name, as in kernel.name and kernel_aggregate.name"
class = """kind of work: CONV, GEMM, RNN, attention, batchnorm, layernorm, softmax, activation, …;
    other if no pattern matches"""
direction = "forward, backward, backward data, backward weights; NULL if the name does not show it"
tensor_core = "true if the kernel computes on tensor cores; NULL if the name does not show it"
pattern = "pattern that gave the class; NULL for class other"
evidence = "kernel name: a naming convention, not a measurement"
*/
WITH named AS (
    SELECT trace_id, name FROM kernel
    UNION
    SELECT trace_id, name FROM kernel_aggregate
),
matched AS (
    -- Each attribute comes from the matching row of highest priority that sets it.
    SELECT
        n.name,
        max_by(c.class, c.priority) FILTER (c.class IS NOT NULL) AS class,
        max_by(c.direction, c.priority) FILTER (c.direction IS NOT NULL) AS direction,
        max_by(c.tensor_core, c.priority) FILTER (c.tensor_core IS NOT NULL) AS tensor_core,
        max_by(c.pattern, c.priority) FILTER (c.class IS NOT NULL) AS pattern
    FROM (SELECT DISTINCT name FROM named) AS n
    INNER JOIN kernel_classes AS c ON regexp_matches(n.name, c.pattern)
    GROUP BY n.name
)
SELECT
    n.trace_id,
    n.name,
    coalesce(m.class, 'other') AS class,
    m.direction,
    m.tensor_core,
    m.pattern,
    'kernel name' AS evidence
FROM named AS n
LEFT JOIN matched AS m ON m.name = n.name
