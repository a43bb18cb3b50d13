/*
title    = "Times of collectives"
question = "How long did each collective move data, and between how many ranks?"
source   = """matched_collective: last start to first end, without the wait for the last rank;
    else the duration on the rank"""
grain    = "matched collective of a job, or collective of a rank"
needs    = ["collective", "collectives"]
optional = ["job_member", "job_ranks", "matched_collective"]
returns = [
    "job", "trace_id", "collective_id", "kind", "bytes", "group_size", "group_evidence", "basis",
    "time_ns", "bus_factor", "uncertainty_ns",
]
[columns]
job = "the job; NULL for a trace without a known rank"
trace_id = "the trace; of a matched collective, that of the lowest rank"
collective_id = "the collective in that trace"
kind = "all_reduce, all_gather, …; NULL when unknown"
bytes = {unit = "byte", doc = "bytes of the collective; NULL when unknown"}
group_evidence = "recorded, world size or ranks present; NULL when unknown"
basis = """transfer: last start to first end of all ranks present, if longer than the uncertainty of
    their clocks; duration: on one rank, with its wait for the others"""
time_ns = "the time"
bus_factor = """bus bandwidth ÷ bytes per time, as nccl-tests defines it; NULL for other kinds, and
    for groups of one or unknown size"""
uncertainty_ns = "uncertainty of the clocks behind a transfer; NULL for a duration"
[advice]
missing = "needs collectives; {collectives}"
*/
WITH
factor AS (
    SELECT kind, any_value(ring_steps) AS ring_steps, any_value(bus_factor) AS bus_factor
    FROM collectives GROUP BY kind
),
transfer AS (
    SELECT trace_id, collective_id, transfer_ns, uncertainty_ns,
        rank = min(rank) OVER (PARTITION BY job, communicator, sequence) AS is_first
    FROM matched_collective
    WHERE is_synchronizing AND mismatch IS NULL AND transfer_ns > uncertainty_ns
),
timed AS (
    SELECT m.job, c.trace_id, c.collective_id, c.kind, c.bytes,
        coalesce(c.group_size, r.world_size, CASE WHEN r.ranks_present > 1
            THEN r.ranks_present + r.ranks_missing END)::BIGINT AS group_size,
        CASE WHEN c.group_size IS NOT NULL THEN 'recorded'
             WHEN r.world_size IS NOT NULL THEN 'world size'
             WHEN r.ranks_present > 1 THEN 'ranks present' END AS group_evidence,
        CASE WHEN t.trace_id IS NULL THEN 'duration' ELSE 'transfer' END AS basis,
        coalesce(t.transfer_ns, c.end_ns - c.start_ns) AS time_ns, t.uncertainty_ns
    FROM collective c
    LEFT JOIN job_member m
        ON  m.trace_id = c.trace_id AND NOT m.is_duplicate
        AND (m.process_id IS NULL OR m.process_id IS NOT DISTINCT FROM c.process_id
             AND m.device_id IS NOT DISTINCT FROM c.device_id)
    LEFT JOIN job_ranks r ON r.job = m.job
    LEFT JOIN transfer t ON t.trace_id = c.trace_id AND t.collective_id = c.collective_id
    WHERE coalesce(t.is_first, true)
)
SELECT t.job, t.trace_id, t.collective_id, t.kind, t.bytes, t.group_size, t.group_evidence,
    t.basis, t.time_ns,
    CASE WHEN t.group_size > 1 THEN coalesce(f.bus_factor,
        f.ring_steps * (t.group_size - 1) / t.group_size) END::DOUBLE AS bus_factor,
    t.uncertainty_ns
FROM timed t
LEFT JOIN factor f ON f.kind = t.kind
