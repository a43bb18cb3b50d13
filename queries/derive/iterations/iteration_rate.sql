/*
title    = "Iteration rate"
question = "How long does an iteration of each process take, and how many run per second?"
source   = "total ÷ total, never the mean of rates (Zhu et al. 2018, section 3.4.1)"
grain    = "process with iterations"
needs    = ["iteration_statistics"]
returns = [
    "trace_id", "process_id", "iterations", "elapsed_ns", "iteration_ns", "iterations_per_s",
    "cv_pct", "stalls", "stall_share_pct", "stability", "clock", "measured_over", "method",
    "confidence",
]
[columns]
iterations = "iterations counted"
elapsed_ns = "sum of the periods, on the clock in column clock; NULL without periods"
iteration_ns = "elapsed ÷ iterations"
iterations_per_s = {unit = "1/s", doc = "iterations ÷ elapsed"}
cv_pct = "coefficient of variation of the periods; NULL with fewer than three iterations"
stall_share_pct = "time of the stalls ÷ elapsed"
stability = "quality of the rate (iteration_statistics)"
measured_over = "steady state, or all iterations without a steady state"
*/
SELECT trace_id, process_id, n AS iterations, total_ns AS elapsed_ns, mean_ns AS iteration_ns,
    n / (nullif(total_ns, 0) / 1e9) AS iterations_per_s,
    CASE WHEN n >= 3 THEN cv_pct END AS cv_pct, stalls, stall_share_pct, stability, clock,
    measured_over, method, confidence
FROM iteration_statistics
WHERE measure = 'period_ns'
