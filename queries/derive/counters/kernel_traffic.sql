/*
title    = "Device-memory traffic of each kernel"
question = "How many bytes did each kernel read from and write to device memory?"
source   = "hardware counters of the memory controllers: Nsight Compute dram__bytes_*, nvprof dram_*_bytes and dram_*_transactions of 32 bytes"
grain    = "kernel that was counted"
needs    = ["kernel_counter", "dram_metrics"]
[columns.trace_id]
doc = "the trace"
[columns.kernel_id]
doc = "the kernel"
[columns.dram_bytes]
unit = "byte"
doc = "bytes read and written, what the caches served left out; only where both were counted"
[advice]
missing = """
needs the kernels' traffic of device memory: collect dram__bytes_read.sum and
dram__bytes_write.sum with `ncu --csv --page raw`, or, before compute capability 7.5,
dram_read_bytes and dram_write_bytes with `nvprof --metrics`"""
counters = "the kernels' traffic of device memory"
*/
SELECT c.trace_id, c.kernel_id, sum(c.value * m.weight) AS dram_bytes
FROM kernel_counter c JOIN dram_metrics m USING (tool, metric)
GROUP BY c.trace_id, c.kernel_id, c.tool, m.preference
-- a sum with a missing part would be a wrong number, not a small one
HAVING count(DISTINCT c.metric) = (
    SELECT count(*) FROM dram_metrics d WHERE d.tool = c.tool AND d.preference = m.preference)
QUALIFY row_number() OVER (PARTITION BY c.trace_id, c.kernel_id ORDER BY c.tool, m.preference) = 1
