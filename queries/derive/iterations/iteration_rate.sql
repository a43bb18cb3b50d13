/*
title    = "Iteration rate"
question = "How long does an iteration of each process take, and how many run per second?"
source   = "total ÷ total, never the mean of rates (Zhu et al. 2018, section 3.4.1)"
grain    = "process with iterations"
needs    = ["iteration_statistics"]
[columns.trace_id]
doc = "the trace"
[columns.process_id]
doc = "key of the process"
[columns.iterations]
doc = "iterations counted"
[columns.elapsed_ns]
unit = "ns"
doc = "sum of the periods, on the clock in column clock; NULL without periods"
[columns.iteration_ns]
unit = "ns"
doc = "elapsed ÷ iterations"
[columns.iterations_per_s]
unit = "1/s"
doc = "iterations ÷ elapsed"
[columns.cv_pct]
unit = "%"
doc = "coefficient of variation of the periods; NULL with fewer than three iterations"
[columns.stalls]
doc = "iterations longer than 1.5 × the median"
[columns.stall_share_pct]
unit = "%"
doc = "time of the stalls ÷ elapsed"
[columns.stability]
doc = "quality of the rate (iteration_statistics)"
[columns.clock]
doc = "clock of the periods: host, or gpu if the host ran ahead (iteration)"
[columns.measured_over]
doc = "steady state, or all iterations without a steady state"
[columns.method]
doc = "nvtx range, nvtx mark or anchor kernel"
[columns.confidence]
doc = "1 for NVTX marks of the program; for an anchor kernel, its score (_iteration_anchor)"
*/
SELECT trace_id, process_id, n AS iterations, total_ns AS elapsed_ns, mean_ns AS iteration_ns,
    n / (nullif(total_ns, 0) / 1e9) AS iterations_per_s,
    CASE WHEN n >= 3 THEN cv_pct END AS cv_pct, stalls, stall_share_pct, stability, clock,
    measured_over, method, confidence
FROM iteration_statistics
WHERE measure = 'period_ns'
