/*
title    = "Iteration rate"
question = "How long does an iteration of each process take, and how many does it do per second?"
source   = "total over total, never the mean of rates (Zhu et al. 2018, section 3.4.1)"
grain    = "process that has an iteration with a period"
needs    = ["iteration"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iterations]
doc = "iterations with a period in the window"
[columns.elapsed_ns]
unit = "ns"
doc = "sum of their periods, on the clock named below"
[columns.iteration_ns]
unit = "ns"
doc = "median of their periods; NULL below three iterations"
[columns.iterations_per_s]
unit = "1/s"
doc = "iterations ÷ elapsed; NULL below three iterations"
[columns.clock]
doc = "host: from start to start on the host; gpu: from first operation to first operation on the GPU, where the host ran ahead of it (launched the iterations more than 5 % faster than the GPU began them), for then the host's periods tell how fast work was queued, not done"
[columns.measured_over]
doc = "stable iterations, or all iterations where none are stable"
[columns.method]
doc = "nvtx range, nvtx mark or kernel order"
[columns.confidence]
doc = "1 for the program's own marks; for kernel order the share of kernels in identical periods"
*/
WITH
chosen AS (
    SELECT *, bool_or(in_window) OVER process AS has_window,
        lead(gpu_start_ns) OVER (PARTITION BY trace_id, process_id ORDER BY iteration)
            - gpu_start_ns AS gpu_period_ns
    FROM iteration WINDOW process AS (PARTITION BY trace_id, process_id)
),
summed AS (
    SELECT trace_id, process_id, bool_and(has_window) AS has_window, any_value(method) AS method,
        any_value(confidence) AS confidence, count(*) AS iterations,
        coalesce(count(gpu_period_ns) = count(*) AND sum(gpu_period_ns) > 1.05 * sum(period_ns), false) AS on_gpu,
        CASE WHEN on_gpu THEN sum(gpu_period_ns) ELSE sum(period_ns) END::BIGINT AS elapsed_ns,
        CASE WHEN on_gpu THEN median(gpu_period_ns) ELSE median(period_ns) END AS median_ns
    FROM chosen
    WHERE (in_window OR NOT has_window) AND period_ns IS NOT NULL
    GROUP BY trace_id, process_id
)
SELECT trace_id, process_id, iterations, elapsed_ns,
    CASE WHEN iterations >= 3 THEN median_ns END::DOUBLE AS iteration_ns,
    CASE WHEN iterations >= 3 THEN iterations / (nullif(elapsed_ns, 0) / 1e9) END AS iterations_per_s,
    CASE WHEN on_gpu THEN 'gpu' ELSE 'host' END AS clock,
    CASE WHEN has_window THEN 'stable iterations' ELSE 'all iterations' END AS measured_over,
    method, confidence
FROM summed
