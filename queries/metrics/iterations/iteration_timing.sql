/*
title    = "Iteration timing"
question = "How long did each iteration take on the host, on the GPU, and from start to start?"
source   = "three times are kept apart: host span, GPU-projected span, and the period, which is what gives throughput"
grain    = "one iteration of one process"
needs    = ["iteration"]
optional = ["process"]
[columns.trace_id]
doc = "the trace"
[columns.pid]
doc = "process; NULL when unknown"
[columns.iteration]
doc = "number of the iteration, from 0 in order of time"
[columns.label]
doc = "text of its range or mark; the anchor kernel that every iteration begins with"
[columns.start_ns]
unit = "ns"
doc = "start, on the clock named below"
[columns.host_ns]
unit = "ns"
doc = "host span"
[columns.gpu_ns]
unit = "ns"
doc = "GPU-projected span: end of the last operation launched in it minus start of the first; NULL without operations"
[columns.period_ns]
unit = "ns"
doc = "start of the next iteration minus start of this one, on the clock named below; NULL for the last"
[columns.clock]
doc = "host: from start to start on the host; gpu: from first operation to first operation on the GPU, for iterations found by the order of kernels, and where the host ran ahead of the GPU (its periods sum to less than the GPU's by more than 5 %), for then the host's periods tell how fast work was queued, not done"
[columns.kernels]
doc = "kernels launched in it; NULL where the trace has no GPU work"
[columns.kernel_ns]
unit = "ns"
doc = "sum of their durations; NULL where the trace has no GPU work"
[columns.in_window]
doc = "metrics count it: it is in the steady state, or there is none and all are counted"
[columns.dropped]
doc = "why not: warm-up (first use of a kernel, allocator growth, slow start), GPU work not fully recorded, next start not recorded (the last one)"
[columns.method]
doc = "nvtx range, nvtx mark, or anchor kernel (no mark: a kernel that comes once an iteration)"
[columns.confidence]
doc = "1 for the program's own marks; for an anchor kernel its score (_iteration_anchor)"
[plot]
kind = "line"
x = "iteration"
y = ["period_ns", "host_ns", "gpu_ns"]
series = ["pid"]
window = "in_window"
*/
SELECT i.trace_id, p.pid, i.iteration, i.label,
    CASE i.clock WHEN 'gpu' THEN i.gpu_start_ns ELSE i.start_ns END AS start_ns,
    i.host_ns, i.gpu_ns, i.period_ns, i.clock, i.kernels, i.kernel_ns, i.in_window, i.dropped, i.method, i.confidence
FROM iteration i
LEFT JOIN process p ON p.trace_id = i.trace_id AND p.process_id = i.process_id
ORDER BY i.trace_id, p.pid, i.process_id, i.iteration
