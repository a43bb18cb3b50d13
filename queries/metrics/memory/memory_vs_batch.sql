/*
title    = "Memory against the batch size"
question = "How does memory grow with the batch, and which batch still fits a device?"
source   = """peaks of memory logs that differ in batch size only
    (`collect --memory --batch-size A,B`); lines between neighbouring batch sizes, beyond the last
    two their line; nominal memory of products from gpu_products"""
grain    = "batch size and group of classes, per sweep"
needs    = ["allocation", "_peak_allocation", "peak_memory", "gpu_products"]
optional = ["memory_space", "trace"]
returns = [
    "sweep", "trace_id", "device_id", "batch_size", "group_name", "requested_bytes",
    "peak_requested_bytes", "peak_reserved_bytes", "samples_per_s", "bytes_per_sample",
    "largest_batch", "largest_evidence", "why_not", "evidence",
]
[columns]
sweep = "model, variant, framework, precision and scale of the sweep"
batch_size = {unit = "sample", doc = "samples per iteration"}
group_name = "weights, weight gradients, feature maps, workspace, dynamic, unknown"
requested_bytes = "bytes of the group at the peak"
peak_requested_bytes = "live bytes at the peak"
peak_reserved_bytes = """most bytes that the allocator held; of an estimate, of a model of PyTorch's
    allocator with default settings; NULL when unknown"""
samples_per_s = {unit = "sample/s", doc = """throughput of the run without recording; NULL if it was
    not measured"""}
bytes_per_sample = {unit = "byte", doc = """growth of the group between this and the next smaller
    batch, per sample; NULL for the smallest"""}
largest_batch = {unit = "sample", doc = """largest batch whose held bytes fit the memory of the
    device less `context_mb`; NULL without `gpu` and `memory_gb`"""}
largest_evidence = """simulated, measured or estimated if the sweep has this batch, which fits, and
    the next, which does not: simulated by a model of PyTorch's allocator, measured in recordings,
    estimated from shapes without a model; interpolated between two batch sizes; extrapolated beyond
    them; NULL without `gpu` and `memory_gb`, or with a single batch size"""
why_not = "reasons why the memory of `gpu` is unknown; NULL if there are none"
evidence = "estimated (from shapes) or measured (recorded)"
[params.gpu]
doc     = """name or product of a GPU in gpu_products, such as GeForce RTX 2080 Ti; its nominal
    memory is assumed"""
default = ""
[params.memory_gb]
doc     = "memory of the device, 2^30 bytes; 0 takes that of `gpu`"
default = 0.0
[params.context_mb]
doc     = "device memory outside the allocator (CUDA context, libraries), 2^20 bytes"
default = 500.0
[params.allow_unknown]
doc     = "true answers without a largest batch if the memory of `gpu` is unknown"
default = false
[refuse]
column = "why_not"
unless = "allow_unknown"
[plot]
kind   = "stacked_bar"
x      = "batch_size"
y      = ["requested_bytes"]
series = "group_name"
panels = ["sweep"]
secondary = "samples_per_s"
*/
WITH
run AS (
    SELECT t.trace_id, t.batch_size,
        concat_ws(
            ' ', t.capture::JSON ->> '$.model', t.capture::JSON ->> '$.variant',
            t.capture::JSON ->> '$.framework', t.capture::JSON ->> '$.precision',
            t.capture::JSON ->> '$.scale'
        ) AS sweep,
        (t.capture::JSON ->> '$.throughput.samples_per_second')::DOUBLE AS samples_per_s,
        list_contains(t.notes, 'estimated: tensors had shapes but no data') AS is_estimated
    FROM trace AS t
    WHERE t.batch_size IS NOT NULL AND t.capture IS NOT NULL
),
peak AS (
    SELECT r.*, p.space, s.device_id, p.sequence, p.requested_bytes AS peak_requested_bytes,
        if(p.reserved_bytes >= p.requested_bytes, p.reserved_bytes, NULL) AS peak_reserved_bytes
    FROM run AS r
    JOIN peak_memory AS p USING (trace_id)
    JOIN memory_space AS s USING (space)
),
grouped AS (
    SELECT p.sweep, p.trace_id, p.device_id, p.batch_size, p.peak_requested_bytes,
        p.peak_reserved_bytes, p.samples_per_s, p.is_estimated,
        a.group_name,
        sum(a.requested_bytes)::BIGINT AS requested_bytes
    FROM peak AS p
    JOIN _peak_allocation AS a USING (space)
    GROUP BY ALL
),
reserved AS (
    SELECT sweep, device_id, batch_size,
        max(coalesce(peak_reserved_bytes, peak_requested_bytes)) AS held_bytes,
        CASE
            WHEN NOT bool_or(is_estimated) THEN 'measured'
            WHEN bool_and(peak_reserved_bytes IS NOT NULL) THEN 'simulated'
            ELSE 'estimated'
        END AS evidence
    FROM peak GROUP BY sweep, device_id, batch_size
),
line AS (
    SELECT sweep, device_id, batch_size AS from_batch, held_bytes AS from_bytes, evidence,
        lead(batch_size) OVER by_batch AS to_batch, lead(held_bytes) OVER by_batch AS to_bytes
    FROM reserved
    WINDOW by_batch AS (PARTITION BY sweep, device_id ORDER BY batch_size)
),
asked AS (
    SELECT trim(getvariable('gpu')) AS gpu,
        getvariable('memory_gb')::DOUBLE AS memory_gb,
        -- Drivers print the same product with and without vendor and brand.
        regexp_replace(gpu, '^(NVIDIA |Tesla )+', '', 'i') AS name
),
product AS (
    -- An exact product wins over a product family, which has no compute capability. A name can
    -- state the memory of a product that has several sizes: V100-SXM2-32GB.
    SELECT coalesce(
            p.memory_gib,
            try_cast(nullif(regexp_extract(a.name, '(\d+) ?GB', 1), '') AS DOUBLE)
        ) AS memory_gib
    FROM gpu_products AS p
    JOIN asked AS a
        ON regexp_full_match(a.name, p.name_pattern, 'i')
        OR regexp_full_match('GeForce ' || a.name, p.name_pattern, 'i')
        OR lower(p.product) = lower(a.gpu)
    ORDER BY p.compute_capability IS NULL, p.product
    LIMIT 1
),
capacity AS (
    SELECT a.gpu,
        coalesce(nullif(a.memory_gb, 0), p.memory_gib) * 1073741824
        - getvariable('context_mb')::DOUBLE * 1048576 AS bytes
    FROM asked AS a
    LEFT JOIN product AS p ON a.gpu <> ''
),
-- Products with a similar name, for the message.
similar_product AS (
    SELECT string_agg(p.example_name, ', ' ORDER BY p.example_name) AS names
    FROM (
        SELECT p.example_name
        FROM gpu_products AS p
        CROSS JOIN asked AS a
        WHERE p.memory_gib IS NOT NULL AND a.name <> ''
            AND (contains(lower(p.example_name), lower(a.name))
                OR jaro_winkler_similarity(
                    lower(p.example_name), lower(a.gpu)
                ) > 0.9)
        ORDER BY jaro_winkler_similarity(lower(p.example_name), lower(a.gpu)) DESC, p.example_name
        LIMIT 4
    ) AS p
),
unknown_gpu AS (
    SELECT format(
            'the memory of a GPU named ''{}'' is unknown; give memory_gb{}',
            c.gpu, coalesce(', or as gpu one of ' || s.names, '')
        ) AS why_not
    FROM capacity AS c
    CROSS JOIN similar_product AS s
    WHERE c.gpu <> '' AND c.bytes IS NULL
),
-- The last line on which the capacity is reached or that begins below it.
crossing AS (
    SELECT l.sweep, l.device_id,
        arg_max(
            floor(
                l.from_batch + (c.bytes - l.from_bytes) * (l.to_batch - l.from_batch)
                / (l.to_bytes - l.from_bytes)
            ), l.from_batch
        )::BIGINT AS largest_batch,
        arg_max(
            CASE
                WHEN c.bytes NOT BETWEEN l.from_bytes AND l.to_bytes THEN 'extrapolated'
                WHEN l.to_batch = l.from_batch + 1 AND c.bytes < l.to_bytes THEN l.evidence
                ELSE 'interpolated'
            END, l.from_batch
        ) AS largest_evidence
    FROM line AS l
    CROSS JOIN capacity AS c
    WHERE l.to_bytes > l.from_bytes
        AND (l.from_bytes <= c.bytes OR l.from_batch = (
            SELECT min(o.from_batch) FROM line AS o
            WHERE o.sweep = l.sweep AND o.device_id IS NOT DISTINCT FROM l.device_id
        ))
    GROUP BY l.sweep, l.device_id
)
SELECT g.sweep, g.trace_id, g.device_id, g.batch_size, g.group_name, g.requested_bytes,
    g.peak_requested_bytes, g.peak_reserved_bytes, g.samples_per_s,
    (g.requested_bytes - lag(g.requested_bytes) OVER by_batch)
    / nullif(g.batch_size - lag(g.batch_size) OVER by_batch, 0) AS bytes_per_sample,
    if(c.largest_batch > 0, c.largest_batch, 0 * c.largest_batch) AS largest_batch,
    if(c.largest_batch > 0, c.largest_evidence, NULL) AS largest_evidence,
    (SELECT [why_not] FROM unknown_gpu) AS why_not,
    if(g.is_estimated, 'estimated', 'measured') AS evidence
FROM grouped AS g
LEFT JOIN crossing AS c
    ON c.sweep = g.sweep AND c.device_id IS NOT DISTINCT FROM g.device_id
WINDOW by_batch AS (
    PARTITION BY g.sweep, g.device_id, g.group_name ORDER BY g.batch_size, g.trace_id
)
ORDER BY g.sweep, g.device_id, g.batch_size, g.trace_id,
    list_position(
        ['weights', 'dynamic', 'weight gradients', 'workspace', 'feature maps', 'unknown',
            'untracked'], g.group_name
    )
