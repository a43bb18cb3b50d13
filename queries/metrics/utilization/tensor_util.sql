/*
title    = "Tensor core utilization"
question = "How much of the tensor cores' peak did training use?"
source   = "as fp32_util; no counter counts the FLOP of tensor cores, so they come from the model of the layers, and the counters give the use of the pipe"
grain    = "kind of evidence and device; with --set by=…, iteration, layer or kernel"
needs    = ["kernel", "utilization"]
[columns.trace_id]
doc = "the trace"
[columns.pid]
doc = "process; NULL when unknown"
[columns.device_id]
doc = "device; NULL when unknown"
[columns.iteration]
doc = "iteration; NULL unless by iteration"
[columns.layer]
doc = "layer; NULL unless by layer, and for the kernels that no layer owns"
[columns.kernel_name]
doc = "demangled name; NULL unless by kernel"
[columns.kernels]
doc = "kernels that the row is about"
[columns.flop]
unit = "FLOP"
doc = "floating-point operations done"
[columns.peak_flops]
unit = "FLOP/s"
doc = "the device's peak; where layers differ in arithmetic the FLOP-weighted harmonic mean of their peaks"
[columns.busy_ns]
unit = "ns"
doc = "time in which at least one kernel ran (by layer and by kernel: the sum of the kernels' durations)"
[columns.elapsed_ns]
unit = "ns"
doc = "length of the window or of the iteration on the device; NULL without a timeline"
[columns.busy_pct]
unit = "%"
doc = "100 × FLOP ÷ (peak × busy time)"
[columns.elapsed_pct]
unit = "%"
doc = "100 × FLOP ÷ (peak × elapsed time): by layer and by kernel their part of the window's figure"
[columns.pipe_pct]
unit = "%"
doc = "use of the pipe per SM-active cycle, weighted by cycles"
[columns.pipe_elapsed_pct]
unit = "%"
doc = "use of the pipe per elapsed cycle, weighted by cycles"
[columns.pipe_level]
unit = "level"
doc = "nvprof's level 0 to 10, weighted by duration; where no duration is known all executions weigh the same"
[columns.covered_pct]
unit = "%"
doc = "share of the kernels' time whose FLOP, pipe use or level is known"
[columns.evidence]
doc = "counter or modelled"
[columns.measured_over]
doc = "steady state, all iterations or whole trace; NULL without a timeline"
[columns.reason]
doc = "why a percentage is NULL; NULL when none is"
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
SELECT trace_id, pid, device_id, iteration, layer, kernel_name, kernels, flop, peak_flops, busy_ns,
    elapsed_ns, busy_pct, elapsed_pct, pipe_pct, pipe_elapsed_pct, pipe_level, covered_pct,
    evidence, measured_over, reason
FROM utilization
WHERE precision = 'tensor'
ORDER BY trace_id, pid, device_id, iteration NULLS FIRST,
    CASE WHEN layer IS NULL AND kernel_name IS NULL THEN 0 ELSE busy_ns END DESC NULLS LAST,
    layer NULLS LAST, kernel_name NULLS LAST, evidence
