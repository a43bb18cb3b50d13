/*
title    = "Compared steps of ranks"
question = "Which steps do the ranks of a job have in common, so that their work compares?"
source   = """steps in the analysis window of every rank, matched by the label of the iteration
    where labels differ from each other, else by its number"""
grain    = "step of a rank of a job in which ranks wait for each other"
needs    = ["matched_collective", "collective", "host_window", "iteration"]
returns = ["job", "rank", "trace_id", "process_id", "device_id", "iteration", "start_ns", "end_ns"]
[columns]
process_id = "key of the process with most collectives of the rank; -1 when unknown"
device_id = "device with most of its communication kernels, -1 when unknown; NULL for gloo"
iteration = "as iteration.iteration"
start_ns = "start of the period of the iteration"
end_ns = "end of the period of the iteration"
*/
WITH
-- A rank that uses NCCL is compared by its GPU, even if it synchronizes over gloo, too.
place AS (
    SELECT m.job, m.rank, m.trace_id, coalesce(c.process_id, -1) AS process_id,
        CASE WHEN m.source = 'kernel' THEN coalesce(c.device_id, -1) END AS device_id
    FROM matched_collective m
    JOIN collective c ON c.trace_id = m.trace_id AND c.collective_id = m.collective_id
    SEMI JOIN (
        FROM matched_collective WHERE is_synchronizing AND start_skew_ns > uncertainty_ns
    ) d ON d.job = m.job
    WHERE m.is_synchronizing AND m.mismatch IS NULL AND m.source IN ('kernel', 'gloo')
    GROUP BY m.job, m.rank, m.trace_id, m.source, c.process_id, c.device_id
    QUALIFY row_number() OVER (
        PARTITION BY m.job, m.rank
        ORDER BY m.source = 'kernel' DESC, count(*) DESC, m.trace_id, c.process_id,
            c.device_id) = 1
),
step AS (
    SELECT p.*, w.iteration, w.period_start_ns AS start_ns, w.period_end_ns AS end_ns,
        CASE WHEN count(DISTINCT i.label) OVER own = count(*) OVER own THEN i.label
             ELSE w.iteration::VARCHAR END AS step
    FROM place p
    JOIN host_window w ON w.trace_id = p.trace_id AND coalesce(w.process_id, -1) = p.process_id
    JOIN iteration i
        ON  i.trace_id = w.trace_id AND i.process_id IS NOT DISTINCT FROM w.process_id
        AND i.iteration = w.iteration
    WHERE w.period_end_ns > w.period_start_ns
    WINDOW own AS (PARTITION BY p.job, p.rank)
)
SELECT s.job, s.rank, s.trace_id, s.process_id, s.device_id, s.iteration, s.start_ns, s.end_ns
FROM step s
JOIN (SELECT job, count(*) AS ranks FROM place GROUP BY job) r USING (job)
QUALIFY count(*) OVER (PARTITION BY s.job, s.step) = r.ranks
