/*
title    = "Steps of processes without a GPU"
question = "From when to when does each step of a process without GPU operations last?"
source   = """from the start of an iteration to the start of the next; without iterations, the whole
    trace, if it has operators of PyTorch. A process that launches kernels works on a GPU that was
    not recorded: its steps are known only where ranges mark the loading of input"""
grain    = "iteration in the analysis window; for a process without iterations, the whole trace"
needs    = ["iteration", "host_window"]
optional = ["annotation", "api_call", "gpu_op", "_host_loading"]
returns = [
    "trace_id", "process_id", "iteration", "thread_id", "start_ns", "end_ns", "method",
    "operator_threads",
]
[columns]
iteration = "as iteration.iteration; NULL for the whole trace"
thread_id = """thread that marked the iteration; for the whole trace, the one that is longest in
    operators"""
start_ns = "start of the step"
end_ns = "end of the step"
method = "as iteration.method; NULL for the whole trace"
operator_threads = "threads of the process that run operators of PyTorch; NULL without operators"
*/
WITH
-- Of operators inside one another, the outer one counts.
outermost AS (
    SELECT trace_id, process_id, thread_id, end_ns - start_ns AS ns
    FROM annotation
    WHERE source = 'operator' AND kind = 'push_pop'
    QUALIFY end_ns > coalesce(max(end_ns) OVER (
        PARTITION BY trace_id, process_id, thread_id ORDER BY start_ns, end_ns DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)
),
by_thread AS (
    SELECT trace_id, process_id, thread_id, sum(ns) AS ns FROM outermost GROUP BY ALL
),
worked AS (
    SELECT trace_id, process_id, count(*) AS operator_threads, arg_max(thread_id, ns) AS thread_id
    FROM by_thread
    GROUP BY trace_id, process_id
),
launching AS (
    SELECT DISTINCT trace_id, process_id
    FROM api_call
    WHERE regexp_matches(name, '^(cu|cuda|hip).*Launch')
    EXCEPT
    SELECT trace_id, process_id FROM _host_loading
),
span AS (
    SELECT i.trace_id, i.process_id, i.iteration, i.thread_id, i.start_ns,
        i.start_ns + i.period_ns AS end_ns, i.method
    FROM iteration i
    SEMI JOIN host_window w
        ON  w.trace_id = i.trace_id AND w.process_id = i.process_id AND w.iteration = i.iteration
    WHERE i.period_ns > 0 AND i.clock = 'host'
    UNION ALL
    SELECT w.trace_id, w.process_id, NULL, k.thread_id, w.start_ns, w.end_ns, NULL
    FROM host_window w
    JOIN worked k USING (trace_id, process_id)
    WHERE w.iteration IS NULL AND w.end_ns > w.start_ns
)
SELECT s.trace_id, s.process_id, s.iteration, s.thread_id, s.start_ns, s.end_ns, s.method,
    k.operator_threads
FROM span s
LEFT JOIN worked k ON k.trace_id = s.trace_id AND k.process_id = s.process_id
ANTI JOIN gpu_op g ON g.trace_id = s.trace_id AND g.process_id = s.process_id
ANTI JOIN launching l ON l.trace_id = s.trace_id AND l.process_id = s.process_id
