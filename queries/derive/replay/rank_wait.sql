/*
title    = "Waits for other ranks"
question = "How long does each collective wait on the GPU for the last rank to begin it?"
source   = """starts of the same collective on the ranks whose traces are read together; differences
    within the uncertainty of the clocks do not count"""
grain    = "communication kernel that waits for another rank"
needs    = ["matched_collective"]
optional = ["collective", "gpu_chain"]
returns = ["trace_id", "process_id", "position", "job", "wait_ns", "last_rank"]
[columns]
process_id = "key of the process; -1 when unknown"
position = "gpu_chain.position of the kernel"
wait_ns = "time from its start until the last rank begins, at most its duration"
last_rank = "the last rank"
*/
SELECT g.trace_id, g.process_id, g.position, m.job,
    least(m.wait_ns, g.end_ns - g.start_ns)::BIGINT AS wait_ns, m.last_rank
FROM matched_collective m
JOIN collective c ON c.trace_id = m.trace_id AND c.collective_id = m.collective_id
JOIN gpu_chain g
    ON  g.trace_id = c.trace_id AND g.process_id = coalesce(c.process_id, -1)
    AND g.device_id = coalesce(c.device_id, -1) AND g.stream_id IS NOT DISTINCT FROM c.stream_id
    AND g.start_ns = c.start_ns AND g.op_kind = 'kernel' AND g.name = c.name
WHERE m.is_synchronizing AND m.start_skew_ns > m.uncertainty_ns AND m.wait_ns > 0
QUALIFY row_number() OVER (
    PARTITION BY g.trace_id, g.process_id, g.position ORDER BY m.wait_ns DESC, m.last_rank) = 1
