/*
title    = "Measured communication of layers"
question = "How long do the gradients of each layer take in the collectives that ran?"
source   = """all-reduces of an iteration in their order carry the gradients of the layers from the
    last to the first; the time of one is divided among its layers by bytes. Ranges
    `push, bytes = N, layer = NAME` and `pull, …` of parameter servers name the layer. The lowest
    rank stands for its job"""
grain    = "layer of a trace with all-reduces or parameter servers in its iterations"
needs    = ["layer_cost", "collective_time", "iteration"]
optional = ["annotation", "job_rank", "collective", "job_member", "_dp_link", "_dp_setting",
    "job_point"]
returns = [
    "trace_id", "layer", "workers", "bandwidth_gbit", "communication_s", "modelled_s", "basis",
    "reason",
]
[params.link_gbit]
doc = "bandwidth of the link in Gbit/s of jobs whose job.json states none; 0: unknown"
default = 0.0
minimum = 0
[file]
param = "layers"
columns = {}
rows = """SELECT NULL::VARCHAR AS trace_id, NULL::VARCHAR AS layer, NULL::BIGINT AS workers,
    NULL::DOUBLE AS bandwidth_gbit, NULL::DOUBLE AS communication_s, NULL::DOUBLE AS modelled_s,
    NULL::VARCHAR AS basis, NULL::VARCHAR AS reason WHERE false"""
[columns]
trace_id = "the trace"
workers = "ranks of the all-reduces or of the job; NULL when unknown"
bandwidth_gbit = {unit = "Gbit/s", doc = """bandwidth of the link of each rank: of job.json, else
    link_gbit; NULL when unknown"""}
communication_s = {unit = "s", doc = """median over iterations; NULL if the bytes of their
    all-reduces are not those of the gradients; of parameter servers the mean of all pushes and
    pulls of this rank"""}
modelled_s = {unit = "s", doc = """the same all-reduces as a ring at that bandwidth; NULL if one of
    them is unknown; of parameter servers the bytes that a link carries, and the latencies"""}
basis = """transfer: last start to first end of all ranks present; duration: on this rank, with its
    wait for the others; both joined by a comma; push and pull of parameter servers"""
reason = "why communication_s is NULL; NULL otherwise"
*/
WITH
chosen AS (
    SELECT c.trace_id FROM (SELECT DISTINCT trace_id FROM layer_cost) c
    LEFT JOIN (
        SELECT trace_id, any_value(job) AS job, min(rank) AS rank FROM job_member GROUP BY trace_id
    ) m USING (trace_id)
    QUALIFY coalesce(m.rank = min(m.rank) OVER (PARTITION BY m.job), true)
),
reduced AS (
    SELECT t.trace_id, i.iteration, t.bytes, t.time_ns / 1e9 AS time_s, t.basis, t.group_size,
        sum(t.bytes) OVER (PARTITION BY t.trace_id, i.process_id, i.iteration
            ORDER BY c.start_ns, c.collective_id) AS up_to_bytes
    FROM collective_time t
    SEMI JOIN chosen USING (trace_id)
    JOIN collective c USING (trace_id, collective_id)
    JOIN iteration i
        ON  i.trace_id = c.trace_id AND i.process_id IS NOT DISTINCT FROM c.process_id
        AND coalesce(c.issue_ns, c.start_ns) >= i.start_ns
        AND coalesce(c.issue_ns, c.start_ns) < i.start_ns + i.period_ns
    WHERE t.kind = 'all_reduce' AND t.bytes > 0 AND i.in_window
),
message AS (
    SELECT a.trace_id, i.process_id, i.iteration, a.end_ns - a.start_ns AS duration_ns,
        regexp_extract(a.text, '^(push|pull), bytes = \d+, layer = (.+)$', 2) AS layer
    FROM annotation a
    SEMI JOIN chosen USING (trace_id)
    JOIN iteration i
        ON  i.trace_id = a.trace_id AND i.process_id IS NOT DISTINCT FROM a.process_id
        AND a.start_ns >= i.start_ns AND a.start_ns < i.start_ns + i.period_ns
    WHERE i.in_window AND regexp_matches(a.text, '^(push|pull), bytes = \d+, layer = ')
      AND a.trace_id NOT IN (SELECT trace_id FROM reduced)
),
served AS (
    SELECT trace_id, layer, sum(duration_ns) / any_value(iterations) / 1e9 AS time_s
    FROM message
    JOIN (SELECT trace_id, count(DISTINCT iteration) AS iterations FROM message GROUP BY trace_id)
        USING (trace_id)
    GROUP BY trace_id, layer
),
-- Their all-reduces, of norms or of what gloo makes of a reduce-scatter, follow other orders.
sharded AS (
    SELECT DISTINCT trace_id FROM collective WHERE kind IN ('all_gather', 'reduce_scatter')
),
layer AS (
    SELECT trace_id, layer, position, gradient_bytes,
        sum(gradient_bytes) OVER (PARTITION BY trace_id ORDER BY position DESC) AS up_to_bytes,
        sum(gradient_bytes) OVER (PARTITION BY trace_id) AS all_bytes
    FROM layer_cost SEMI JOIN chosen USING (trace_id)
),
run AS (
    SELECT trace_id, max(group_size) AS workers, median(moved_bytes) AS moved_bytes,
        string_agg(DISTINCT basis, ', ' ORDER BY basis) AS basis
    FROM (
        SELECT *, sum(bytes) OVER (PARTITION BY trace_id, iteration) AS moved_bytes FROM reduced
    )
    GROUP BY trace_id
    UNION ALL
    SELECT trace_id, max(world_size), NULL, 'push and pull'
    FROM served LEFT JOIN job_rank USING (trace_id) GROUP BY trace_id
),
on_link AS (
    SELECT r.*, coalesce(p.bandwidth_bits_per_s / 1e9,
        nullif(getvariable('link_gbit'), 0))::DOUBLE AS bandwidth_gbit
    FROM run r LEFT JOIN (FROM job_point WHERE is_own) p USING (trace_id)
),
link AS (
    SELECT r.*, coalesce(l.all_reduce_s, 2 * (r.workers - 1) * s.latency_s) AS all_reduce_s,
        if(r.bandwidth_gbit IS NULL, NULL, greatest(l.host_byte_s, 16e-9 * (r.workers - 1)
            / r.workers / (l.link_efficiency * r.bandwidth_gbit))) AS byte_s
    FROM on_link r JOIN _dp_link l USING (trace_id) CROSS JOIN _dp_setting s
),
part AS (
    SELECT l.trace_id, l.layer, r.iteration, r.time_s,
        k.all_reduce_s + r.bytes * k.byte_s AS modelled_s,
        greatest(0, least(r.up_to_bytes, l.up_to_bytes) - greatest(r.up_to_bytes - r.bytes,
            l.up_to_bytes - l.gradient_bytes)) / r.bytes AS share
    FROM layer l
    JOIN reduced r USING (trace_id)
    JOIN link k USING (trace_id)
),
spread AS (
    SELECT trace_id, layer, median(time_s) AS time_s, median(modelled_s) AS modelled_s
    FROM (
        SELECT trace_id, layer, iteration, sum(share * time_s) AS time_s,
            sum(share * modelled_s) AS modelled_s
        FROM part GROUP BY ALL
    ) GROUP BY ALL
)
SELECT l.trace_id, l.layer, k.workers, k.bandwidth_gbit,
    CASE WHEN d.reason IS NULL THEN s.time_s END AS communication_s,
    CASE WHEN d.reason IS NULL THEN s.modelled_s END AS modelled_s, k.basis, d.reason
FROM layer l
JOIN link k USING (trace_id)
JOIN spread s USING (trace_id, layer)
CROSS JOIN LATERAL (
    SELECT CASE WHEN k.trace_id IN (FROM sharded)
            THEN 'parameters are sharded: collectives do not follow the order of the layers'
        WHEN abs(k.moved_bytes - l.all_bytes) > 0.01 * l.all_bytes THEN format(
        'the all-reduces of an iteration move {:.3f} MB, the gradients have {:.3f} MB',
        k.moved_bytes / 1e6, l.all_bytes / 1e6) END AS reason
) d
UNION ALL
SELECT l.trace_id, l.layer, k.workers, k.bandwidth_gbit, coalesce(s.time_s, 0),
    if(l.gradient_bytes > 0, k.all_reduce_s, 0) + l.gradient_bytes * k.byte_s, k.basis, NULL
FROM layer l
JOIN link k USING (trace_id)
LEFT JOIN served s USING (trace_id, layer)
WHERE l.trace_id IN (SELECT trace_id FROM served)
