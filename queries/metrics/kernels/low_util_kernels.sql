/*
title    = "Kernels of low utilization"
question = "Which long kernels have a utilization below the mean of the trace, and which above?"
source   = """Zhu et al. 2018: table of the five longest kernels with FP32 utilization below the
    average"""
grain    = "kernel name, below or above the mean of its trace"
needs    = ["kernel", "kernel_counter", "kernel_utilization"]
reduce   = "concat"
returns = [
    "trace_id", "side", "rank", "kernel_name", "utilization", "mean_utilization", "measure",
    "share_pct", "total_ns", "instances", "evidence",
]
[params.precision]
doc = "precision of the utilization"
choices = ["fp32", "fp16", "tensor"]
default = "fp32"
[params.count]
doc = "number of kernels on each side of the mean"
default = 5
[columns]
side = "below or above the mean of the trace"
rank = "order by total duration on that side, from 1"
evidence = "counter"
[plot]
kind = "stacked_barh"
x = "kernel_name"
y = ["utilization"]
series = ["side", "measure"]
*/
WITH
ranked AS (
    SELECT *,
        -- A kernel exactly at the mean counts as above.
        CASE WHEN utilization < mean_utilization THEN 'below' ELSE 'above' END AS side,
        row_number() OVER (
            PARTITION BY trace_id, utilization < mean_utilization
            ORDER BY total_ns DESC NULLS LAST, kernel_name) AS rank
    FROM kernel_utilization
    WHERE precision = getvariable('precision')
)
SELECT trace_id, side, rank, kernel_name, utilization, mean_utilization, measure, share_pct,
    total_ns, instances, 'counter' AS evidence
FROM ranked
WHERE rank <= getvariable('count')
ORDER BY trace_id, side DESC, rank
