/*
title    = "FP32 utilization"
question = "What share of the FP32 peak did training use?"
source   = """Zhu et al. 2018, section 3.4.3, which does not define T as busy or elapsed time; both
    are reported"""
grain    = "evidence and device; with by=…, also iteration, layer or kernel"
needs    = ["kernel", "utilization"]
reduce   = "concat"
[columns.trace_id]
doc = "the trace"
[columns.pid]
doc = "process; NULL when unknown"
[columns.device_id]
doc = "device; NULL when unknown"
[columns.iteration]
doc = "iteration; NULL unless by=iteration"
[columns.layer]
doc = "layer; NULL unless by=layer, and for kernels without a layer"
[columns.kernel_name]
doc = "demangled name; NULL unless by=kernel"
[columns.kernels]
doc = "number of kernels in the row"
[columns.flop]
unit = "FLOP"
doc = "floating-point operations"
[columns.peak_flops]
unit = "FLOP/s"
doc = """peak of the device; if layers differ in arithmetic, the FLOP-weighted harmonic mean of
    their peaks"""
[columns.busy_ns]
unit = "ns"
doc = "time with at least one running kernel (by=layer and by=kernel: sum of kernel durations)"
[columns.elapsed_ns]
unit = "ns"
doc = "length of the window or iteration on the device; NULL without a timeline"
[columns.busy_pct]
unit = "%"
doc = "100 × FLOP ÷ (peak × busy time)"
[columns.elapsed_pct]
unit = "%"
doc = "100 × FLOP ÷ (peak × elapsed time); by=layer and by=kernel: the part of it due to the row"
[columns.pipe_pct]
unit = "%"
doc = "utilization of the pipe per SM-active cycle, weighted by cycles"
[columns.pipe_elapsed_pct]
unit = "%"
doc = "utilization of the pipe per elapsed cycle, weighted by cycles"
[columns.pipe_level]
unit = "level"
doc = """level 0 to 10 of nvprof, weighted by duration; without durations, all executions have equal
    weight"""
[columns.covered_pct]
unit = "%"
doc = "share of the kernel time with known FLOP, pipe utilization or level"
[columns.evidence]
doc = "counter or modelled"
[columns.measured_over]
doc = "steady state, all iterations or whole trace; NULL without a timeline"
[columns.reason]
doc = "why a percentage is NULL; NULL if all are known"
[[plot]]
kind = "line"
x = "iteration"
y = ["busy_pct", "pipe_pct"]
series = ["evidence", "pid", "device_id"]
[[plot]]
kind = "grouped_barh"
x = "layer"
y = ["busy_pct", "pipe_pct"]
series = ["evidence", "pid", "device_id"]
limit = 120
[[plot]]
kind = "grouped_barh"
x = "kernel_name"
y = ["busy_pct", "pipe_pct", "pipe_level"]
series = ["evidence", "pid", "device_id"]
limit = 40
[[plot]]
kind = "grouped_barh"
x = ["trace_id", "device_id", "pid"]
y = ["busy_pct", "elapsed_pct", "pipe_pct"]
series = "evidence"
*/
SELECT * EXCLUDE (precision)
FROM utilization
WHERE precision = 'fp32'
-- Iterations stay in order of time; layers and kernels begin with the longest.
ORDER BY trace_id, pid, device_id, iteration NULLS FIRST,
    CASE WHEN layer IS NULL AND kernel_name IS NULL THEN 0 ELSE busy_ns END DESC NULLS LAST,
    layer NULLS LAST, kernel_name NULLS LAST, evidence
