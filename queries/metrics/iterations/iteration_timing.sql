/*
title    = "Iteration timing"
question = "How long did each iteration take on the host, on the GPU, and from start to start?"
source   = """three separate times: host span, GPU-projected span, and period; throughput follows
    from the period"""
grain    = "iteration of a process"
needs    = ["iteration"]
optional = ["process"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "iteration", "label", "start_ns", "host_ns", "gpu_ns", "period_ns", "clock",
    "kernels", "kernel_ns", "in_window", "dropped", "method", "confidence",
]
[columns]
iteration = "number of the iteration, from 0 in order of time"
start_ns = "start, on the clock in column clock"
period_ns = """start of the next iteration − start of this one, on the clock in column clock; of the
    last iteration, until its range or its GPU work ends; NULL if its end is unknown"""
clock = """host: start to start on the host; gpu: first operation to first operation on the GPU, for
    iterations found by an anchor kernel, and if the host ran ahead of the GPU (host periods sum to
    over 5 % less than GPU periods). In that case host periods measure how fast work was queued"""
kernels = "kernels launched in the iteration; NULL without GPU work in the trace"
in_window = """true if metrics include the iteration: it is in the steady state, or there is no
    steady state and all are included"""
dropped = """reason for leaving it out: warm-up (first use of a kernel, allocator growth, slow
    start), GPU work not fully recorded, next start not recorded (the last iteration); NULL
    otherwise"""
method = """nvtx range, nvtx mark, or anchor kernel (without marks: a kernel that runs once per
    iteration)"""
[plot]
kind = "line"
x = "iteration"
y = ["period_ns", "host_ns", "gpu_ns"]
series = ["pid"]
window = "in_window"
*/
SELECT i.trace_id, p.pid, i.iteration, i.label,
    -- On the GPU clock, an iteration starts with its first operation.
    CASE i.clock WHEN 'gpu' THEN i.gpu_start_ns ELSE i.start_ns END AS start_ns,
    i.host_ns, i.gpu_ns, i.period_ns, i.clock, i.kernels, i.kernel_ns, i.in_window, i.dropped,
    i.method, i.confidence
FROM iteration i
LEFT JOIN process p ON p.trace_id = i.trace_id AND p.process_id = i.process_id
ORDER BY i.trace_id, p.pid, i.process_id, i.iteration
