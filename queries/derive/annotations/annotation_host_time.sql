/*
title    = "Host time of NVTX ranges"
question = "How long do the NVTX ranges of each text last on the host?"
source   = "same sums as nsys stats nvtx_sum"
grain    = "domain, text and style of NVTX ranges, per trace"
optional = ["annotation"]
returns = [
    "trace_id", "kind", "domain", "text", "first_range_id", "instances", "open_instances",
    "total_ns", "median_ns", "min_ns", "max_ns", "stddev_ns",
]
[columns]
kind = "push_pop or start_end"
domain = "NVTX domain; NULL for the default domain"
text = "NVTX text; NULL without one"
first_range_id = "smallest annotation_id of the ranges"
instances = "ranges"
open_instances = "ranges without an end"
total_ns = "sum of durations on the host; nested ranges count in both"
median_ns = "median duration"
min_ns = "shortest"
max_ns = "longest"
stddev_ns = "sample standard deviation; NULL for a single range"
[advice]
missing = "needs ranges of the program, and the trace has none; {ranges}"
*/
WITH
lasting AS NOT MATERIALIZED (
    SELECT *, end_ns - start_ns AS duration_ns FROM annotation WHERE kind <> 'mark'
),
summed AS MATERIALIZED (
    SELECT trace_id, kind, domain, text, min(annotation_id) AS first_range_id,
        count(*) AS instances,
        count(*) FILTER (is_open) AS open_instances, sum(duration_ns)::BIGINT AS total_ns,
        min(duration_ns) AS min_ns, max(duration_ns) AS max_ns,
        sum(duration_ns::HUGEINT * duration_ns)::HUGEINT AS squares
    FROM lasting GROUP BY ALL
),
-- The median of one or two durations is the mean of minimum and maximum. Most texts with numbers in
-- them are that rare, and a million medians would exceed the memory.
middle AS (
    SELECT o.trace_id, o.first_range_id, median(r.duration_ns)::DOUBLE AS median_ns
    FROM lasting r
    JOIN (FROM summed WHERE instances > 2) o
        ON  o.trace_id = r.trace_id AND o.kind = r.kind AND o.text IS NOT DISTINCT FROM r.text
        AND o.domain IS NOT DISTINCT FROM r.domain
    GROUP BY ALL
)
SELECT trace_id, kind, domain, text, first_range_id, instances, open_instances, total_ns,
    coalesce(m.median_ns, min_ns / 2 + max_ns / 2) AS median_ns, min_ns, max_ns,
    -- Sums of integers are exact, so the result does not depend on the order of rows.
    sqrt((instances * squares - total_ns::HUGEINT * total_ns)
        / nullif(instances * (instances - 1.0), 0)) AS stddev_ns
FROM summed LEFT JOIN middle m USING (trace_id, first_range_id)
