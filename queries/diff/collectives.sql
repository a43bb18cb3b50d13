/*
title    = "Collectives of two runs"
question = "Do collectives of one kind and size move data faster or slower in B than in A?"
source   = "collective_bandwidth side by side"
grain    = "kind, bytes, group size and basis of one side or both"
needs    = ["diff_side", "collective_time"]
returns = [
    "kind", "bytes", "group_size", "basis", "a_collectives", "b_collectives", "a_median_ns",
    "b_median_ns", "change_pct", "a_busbw_bytes_per_s", "b_busbw_bytes_per_s",
]
[columns]
bytes = {unit = "byte", doc = "bytes of each collective; NULL when unknown"}
basis = "transfer: last start to first end of the ranks; duration: on one rank, with its wait"
a_collectives = "collectives in A; 0 without any"
b_collectives = "collectives in B; 0 without any"
a_median_ns = "median time in A"
b_median_ns = "median time in B"
change_pct = "change of the median time, of that in A"
a_busbw_bytes_per_s = "bus bandwidth in A; NULL when unknown"
b_busbw_bytes_per_s = "bus bandwidth in B; NULL when unknown"
[plot]
kind = "grouped_barh"
x = ["kind", "bytes", "group_size", "basis"]
y = [["a_busbw_bytes_per_s", "b_busbw_bytes_per_s"]]
limit = 24
title = "Bus bandwidth"
*/
WITH summary AS (
    SELECT d.side, c.kind, c.bytes, c.group_size, c.basis, count(*) AS collectives,
        median(c.time_ns) AS median_ns, any_value(c.bus_factor) AS bus_factor
    FROM diff_side d
    JOIN collective_time c USING (trace_id)
    GROUP BY d.side, c.kind, c.bytes, c.group_size, c.basis
),
rated AS (
    SELECT *, 1e9 * bytes / nullif(median_ns, 0) * bus_factor AS busbw FROM summary
)
SELECT coalesce(a.kind, b.kind) AS kind, coalesce(a.bytes, b.bytes) AS bytes,
    coalesce(a.group_size, b.group_size) AS group_size, coalesce(a.basis, b.basis) AS basis,
    coalesce(a.collectives, 0) AS a_collectives, coalesce(b.collectives, 0) AS b_collectives,
    a.median_ns AS a_median_ns, b.median_ns AS b_median_ns,
    100.0 * (b.median_ns - a.median_ns) / nullif(a.median_ns, 0) AS change_pct,
    a.busbw AS a_busbw_bytes_per_s, b.busbw AS b_busbw_bytes_per_s
FROM (FROM rated WHERE side = 'A') a
FULL JOIN (FROM rated WHERE side = 'B') b
    ON  b.kind IS NOT DISTINCT FROM a.kind AND b.bytes IS NOT DISTINCT FROM a.bytes
    AND b.group_size IS NOT DISTINCT FROM a.group_size AND b.basis = a.basis
ORDER BY greatest(a_collectives * coalesce(a_median_ns, 0),
        b_collectives * coalesce(b_median_ns, 0)) DESC, kind, bytes DESC, group_size, basis
