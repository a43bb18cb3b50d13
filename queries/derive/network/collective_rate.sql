/*
title    = "Bandwidths of collectives and links"
question = "How fast do collectives of each kind and size move data, compared with the link?"
source   = """bytes per time (algorithm bandwidth) and its multiple that a link carries (bus
    bandwidth), as nccl-tests defines them (PERFORMANCE.md), of the median time"""
grain    = "kind, bytes, group size and basis, per job; per trace without a known rank"
needs    = ["collective_time"]
optional = ["link_test", "job_rank"]
returns = [
    "job", "trace_id", "kind", "bytes", "group_size", "group_evidence", "basis", "collectives",
    "median_ns", "p5_ns", "p95_ns", "algbw_bytes_per_s", "busbw_bytes_per_s", "link_pct",
    "link_bytes_per_s", "link_evidence", "uncertainty_ns",
]
[params.link_gbit]
doc = """nominal bandwidth of the link of one rank in one direction, in Gbit/s; 0: the largest bus
    bandwidth in logs of nccl-tests: of the job, else of as many ranks without a job"""
default = 0.0
[columns]
trace_id = "the trace; NULL for a job"
bytes = {unit = "byte", doc = """bytes of each collective: the larger one of input and output; NULL
    when unknown"""}
group_evidence = """recorded; world size or ranks present: of the job, where the group is not
    recorded; NULL when unknown"""
collectives = "collectives; with the basis duration, those of each rank"
median_ns = "median time"
p5_ns = "5th percentile of the time"
p95_ns = "95th percentile of the time"
algbw_bytes_per_s = """algorithm bandwidth: bytes ÷ median time; NULL if
    bytes are unknown"""
busbw_bytes_per_s = """bus bandwidth: algorithm bandwidth × factor of kind
    and group size; NULL if one of them is unknown, and for kinds that nccl-tests does not
    define"""
link_pct = "bus bandwidth ÷ bandwidth of the link; NULL if one is unknown"
link_bytes_per_s = """bandwidth of the link of one rank in one direction;
    NULL when unknown"""
link_evidence = "link_gbit or nccl-tests; NULL when unknown"
uncertainty_ns = "uncertainty of the clocks behind a transfer; NULL for durations"
[advice]
missing = "needs collectives; {collectives}"
*/
WITH
summary AS (
    SELECT job, CASE WHEN job IS NULL THEN trace_id END AS trace_id, kind, bytes, group_size,
        group_evidence, basis, count(*) AS collectives, median(time_ns) AS median_ns,
        quantile_cont(time_ns, 0.05) AS p5_ns, quantile_cont(time_ns, 0.95) AS p95_ns,
        any_value(bus_factor) AS bus_factor, max(uncertainty_ns) AS uncertainty_ns
    FROM collective_time GROUP BY ALL
),
rated AS (
    SELECT *, 1e9 * bytes / nullif(median_ns, 0) AS algbw, algbw * bus_factor AS busbw FROM summary
),
tested AS (
    SELECT j.job, t.kind, t.ranks, max(t.peak_busbw_bytes_per_s) AS peak
    FROM link_test t LEFT JOIN job_rank j ON j.trace_id = t.trace_id
    GROUP BY j.job, t.kind, t.ranks
),
-- A log without a job is of another run: it counts between as many ranks.
offered AS (
    SELECT s.job, s.kind, s.group_size,
        max_by(t.peak, {'own': t.job IS NOT NULL,
            'as_many': coalesce(t.ranks = s.group_size, false),
            'same': coalesce(t.kind = s.kind, false), 'peak': t.peak}) AS peak
    FROM (SELECT DISTINCT job, kind, group_size FROM summary) s
    JOIN tested t ON t.job = s.job OR t.job IS NULL AND t.ranks = s.group_size
    GROUP BY ALL
),
stated AS (
    SELECT nullif(getvariable('link_gbit')::DOUBLE, 0) * 1e9 / 8 AS link
)
SELECT s.job, s.trace_id, s.kind, s.bytes, s.group_size, s.group_evidence, s.basis, s.collectives,
    s.median_ns, s.p5_ns, s.p95_ns, s.algbw AS algbw_bytes_per_s, s.busbw AS busbw_bytes_per_s,
    100.0 * s.busbw / coalesce(g.link, o.peak) AS link_pct,
    coalesce(g.link, o.peak) AS link_bytes_per_s,
    CASE WHEN g.link IS NOT NULL THEN 'link_gbit'
         WHEN o.peak IS NOT NULL THEN 'nccl-tests' END AS link_evidence,
    s.uncertainty_ns
FROM rated s
CROSS JOIN stated g
LEFT JOIN offered o
    ON o.job IS NOT DISTINCT FROM s.job AND o.kind IS NOT DISTINCT FROM s.kind
