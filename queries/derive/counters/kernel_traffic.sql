/*
title    = "Device-memory traffic of each kernel"
question = "How many bytes did each kernel read from and write to device memory?"
source   = """counters of the memory controllers: Nsight Compute dram__bytes_*, nvprof dram_*_bytes
    and dram_*_transactions of 32 bytes; else the least traffic of the operator (operator_flop)"""
grain    = "kernel with counted or modelled traffic"
needs    = ["dram_metrics", ["kernel_counter", "_operator_kernel"]]
returns = ["trace_id", "kernel_id", "dram_bytes", "evidence"]
[columns]
trace_id = "the trace"
dram_bytes = """bytes read from and written to device memory, without accesses served by caches; no
    counted row unless both were counted"""
evidence = "counter; modelled: each input of the operator is read, and each output written once"
[advice]
missing = "needs the device-memory traffic of kernels; {traffic}"
counters = "device-memory traffic of kernels"
*/
WITH counted AS (
    SELECT c.trace_id, c.kernel_id, sum(c.value * m.weight) AS dram_bytes, 'counter' AS evidence
    FROM kernel_counter c JOIN dram_metrics m USING (tool, metric)
    GROUP BY c.trace_id, c.kernel_id, c.tool, m.preference
    -- Without all of its parts, a sum would be wrong.
    HAVING count(DISTINCT c.metric) = (
        SELECT count(*) FROM dram_metrics d WHERE d.tool = c.tool AND d.preference = m.preference)
    QUALIFY row_number() OVER (
        PARTITION BY c.trace_id, c.kernel_id ORDER BY c.tool, m.preference) = 1
)
FROM counted
UNION ALL
SELECT o.trace_id, o.kernel_id, o.least_bytes, 'modelled'
FROM _operator_kernel o
ANTI JOIN counted c ON c.trace_id = o.trace_id AND c.kernel_id = o.kernel_id
WHERE o.least_bytes IS NOT NULL
