/*
title    = "Time share of recurrent layers and convolutions"
question = """What share of the kernel time in the analysis window is recurrent, and what share is
    convolution?"""
source   = """types of marked layers; else classes of kernel names, including matrix products right
    before and after the kernel of a recurrent cell"""
grain    = "device used by a process"
needs    = ["window_op", "kernel_class"]
optional = ["layer_type"]
returns = [
    "trace_id", "process_id", "device_id", "recurrent_pct", "convolution_pct", "has_persistent",
    "evidence",
]
[columns]
process_id = "key of the process; -1 when unknown"
device_id = "device; -1 when unknown"
recurrent_pct = "recurrent kernels ÷ all kernels, by duration"
convolution_pct = "convolution kernels ÷ all kernels, by duration"
has_persistent = """true if a recurrent kernel is persistent: it keeps its weights on the SMs for
    many time steps"""
evidence = "layers.json if it contains the type of a layer, else kernel name"
*/
WITH
classed AS (
    SELECT o.trace_id, coalesce(o.process_id, -1) AS process_id,
        coalesce(o.device_id, -1) AS device_id, o.duration_ns, o.name, c.class,
        t.layer_type, t.type_evidence,
        lag(c.class) OVER stream = 'RNN' OR lead(c.class) OVER stream = 'RNN' AS beside_cell
    FROM window_op o
    JOIN kernel_class c ON c.trace_id = o.trace_id AND c.name = o.name
    LEFT JOIN layer_type t ON t.trace_id = o.trace_id AND t.layer = o.layer
    WHERE o.op_kind = 'kernel'
    WINDOW stream AS (
        PARTITION BY o.trace_id, o.process_id, o.device_id, o.stream_id
        ORDER BY o.start_ns, o.op_id)
),
evaluated AS (
    SELECT *,
        CASE WHEN type_evidence = 'layers.json'
             THEN regexp_matches(layer_type, '(?i)lstm|gru|rnn|recurrent')
             ELSE class = 'RNN' OR (class = 'GEMM' AND coalesce(beside_cell, false))
        END AS is_recurrent,
        CASE WHEN type_evidence = 'layers.json' THEN regexp_matches(layer_type, '(?i)conv')
             ELSE class = 'CONV' END AS is_convolution
    FROM classed
)
SELECT trace_id, process_id, device_id,
    100.0 * coalesce(sum(duration_ns) FILTER (is_recurrent), 0) / nullif(sum(duration_ns), 0)
        AS recurrent_pct,
    100.0 * coalesce(sum(duration_ns) FILTER (is_convolution), 0) / nullif(sum(duration_ns), 0)
        AS convolution_pct,
    coalesce(bool_or(class = 'RNN' AND regexp_matches(name, '(?i)persist')), false)
        AS has_persistent,
    CASE WHEN bool_or(type_evidence = 'layers.json') THEN 'layers.json' ELSE 'kernel name' END
        AS evidence
FROM evaluated
GROUP BY trace_id, process_id, device_id
