/*
title    = "GPU activity over time"
question = "When was each GPU busy with kernels or copies, and when was it idle?"
source   = """length of the union of GPU operations in each bin ÷ length of the bin, never their sum
    (Zhu et al. 2018, section 3.4.2)"""
grain    = "time bin of a device used by a process, over the whole trace including warm-up"
needs    = ["gpu_op", "busy_interval"]
optional = ["process"]
partial  = true
reduce   = "concat"
returns = [
    "trace_id", "pid", "device_id", "bin", "offset_ns", "offset_end_ns", "start_ns", "elapsed_ns",
    "kernel_ns", "copy_ns", "idle_ns", "busy_pct", "kernel_pct", "copy_pct",
]
[params.bins]
doc = "number of equal bins from the first GPU operation of the trace to the end of the last"
default = 200
[columns]
device_id = "device; NULL when unknown"
bin = "number of the bin, from 0; all devices of a trace have the same bins"
offset_ns = "start of the bin, from the first GPU operation of the trace"
offset_end_ns = "end of the bin, from the first GPU operation of the trace"
start_ns = "start of the bin, on the clock of the trace"
elapsed_ns = """length of the bin: exactly kernel_ns + copy_ns + idle_ns; lengths differ by up to 1
    ns"""
kernel_ns = "time with a kernel or graph"
copy_ns = "time with copies or fills only"
idle_ns = "time without an operation of the process on the device"
busy_pct = "time with any operation ÷ length of the bin"
kernel_pct = "time with a kernel or graph ÷ length of the bin"
copy_pct = "time with copies or fills alone ÷ length of the bin"
[plot]
kind = "heatmap"
x = "offset_ns"
x_end = "offset_end_ns"
x_title = "time"
y = ["busy_pct"]
series = ["device_id", "pid"]
*/
WITH
setting AS (
    SELECT CASE WHEN bins < 1 THEN error('bins must be 1 or more') ELSE bins END AS bins
    FROM (SELECT getvariable('bins') AS bins)
),
span AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) - min(start_ns) AS length_ns,
        -- A bin lasts 1 ns or more.
        least(any_value(bins), max(end_ns) - min(start_ns)) AS bins
    FROM busy_interval, setting GROUP BY trace_id
),
-- Bin k lasts from length × k ÷ bins to length × (k + 1) ÷ bins, both rounded down to nanoseconds.
-- HUGEINT: the product exceeds 64 bits for long traces with many bins.
edge AS (
    SELECT d.trace_id, d.process_id, d.device_id, p.part, s.start_ns AS first_ns, b.bin,
        (s.length_ns::HUGEINT * b.bin // s.bins)::BIGINT AS offset_ns,
        s.start_ns + offset_ns AS at_ns
    FROM (SELECT DISTINCT trace_id, process_id, device_id FROM busy_interval) d
    JOIN span s USING (trace_id)
    JOIN (
        SELECT trace_id, unnest(range(bins + 1)) AS bin FROM span WHERE bins > 0
    ) b USING (trace_id)
    CROSS JOIN (VALUES ('busy'), ('kernel')) AS p (part)
),
-- Cumulative time at each edge; the time in a bin is the difference of its edges.
so_far AS (
    SELECT e.*, coalesce(t.before_ns + least(e.at_ns, t.end_ns) - t.start_ns, 0) AS part_ns
    FROM edge e
    ASOF LEFT JOIN busy_interval t
        ON  t.trace_id = e.trace_id AND t.process_id = e.process_id AND t.device_id = e.device_id
        AND t.part = e.part AND e.at_ns >= t.start_ns
),
bounded AS (
    SELECT trace_id, process_id, device_id, part, first_ns, bin, offset_ns,
        lead(offset_ns) OVER device AS offset_end_ns, lead(part_ns) OVER device - part_ns AS part_ns
    FROM so_far
    WINDOW device AS (PARTITION BY trace_id, process_id, device_id, part ORDER BY bin)
),
every_bin AS (
    SELECT trace_id, process_id, device_id, first_ns, bin, offset_ns, offset_end_ns,
        sum(part_ns) FILTER (part = 'busy')::BIGINT AS busy_ns,
        sum(part_ns) FILTER (part = 'kernel')::BIGINT AS kernel_ns
    FROM bounded WHERE offset_end_ns IS NOT NULL GROUP BY ALL
)
SELECT e.trace_id, p.pid, nullif(e.device_id, -1) AS device_id, e.bin, e.offset_ns,
    e.offset_end_ns, e.first_ns + e.offset_ns AS start_ns,
    e.offset_end_ns - e.offset_ns AS elapsed_ns,
    e.kernel_ns, e.busy_ns - e.kernel_ns AS copy_ns,
    e.offset_end_ns - e.offset_ns - e.busy_ns AS idle_ns,
    100.0 * e.busy_ns / (e.offset_end_ns - e.offset_ns) AS busy_pct,
    100.0 * e.kernel_ns / (e.offset_end_ns - e.offset_ns) AS kernel_pct,
    100.0 * (e.busy_ns - e.kernel_ns) / (e.offset_end_ns - e.offset_ns) AS copy_pct
FROM every_bin e
LEFT JOIN process p ON p.trace_id = e.trace_id AND p.process_id = e.process_id
ORDER BY e.trace_id, p.pid, e.process_id, device_id, e.bin
