/*
title    = "Gradients of a data-parallel iteration"
question = "When is the gradient of each layer ready, and which bucket does it travel in?"
source   = "ready: backward time of the layer and of all later ones; buckets as PyTorch fills them"
grain    = "layer with a gradient"
needs    = ["layer_cost", "_dp_setting"]
[columns]
trace_id = "the trace or layer list"
number = "number in the order of the forward pass, from 1"
gradient_bytes = "bytes of the gradient"
up_to_bytes = "bytes of the gradients of this and all earlier layers"
ready_s = {unit = "s", doc = "time from the start of the backward pass to the gradient"}
after_s = {unit = "s", doc = "forward time of this and all later layers"}
slices = "equal slices of p3"
bucket = "number of the bucket, from 1"
*/
WITH RECURSIVE
timed AS (
    SELECT trace_id, position, gradient_bytes,
        sum(backward_s) OVER later AS ready_s, sum(forward_s) OVER later AS after_s
    FROM layer_cost
    WINDOW later AS (PARTITION BY trace_id ORDER BY position DESC)
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY trace_id ORDER BY position) AS number,
        sum(gradient_bytes) OVER (PARTITION BY trace_id ORDER BY position) AS up_to_bytes
    FROM timed WHERE gradient_bytes > 0
),
listed AS (
    SELECT trace_id, list(gradient_bytes ORDER BY number DESC) AS sizes
    FROM numbered GROUP BY trace_id
),
-- A bucket is closed by the layer that fills it, so each layer depends on the one before.
filled AS (
    SELECT trace_id, 1 AS place, 1 AS bucket, sizes[1] AS in_bucket FROM listed
    UNION ALL
    SELECT f.trace_id, f.place + 1, f.bucket + c.is_full::INTEGER,
        if(c.is_full, 0, f.in_bucket) + l.sizes[f.place + 1]
    FROM filled f
    JOIN listed l USING (trace_id)
    CROSS JOIN _dp_setting s
    CROSS JOIN LATERAL (
        SELECT f.in_bucket >= if(f.bucket = 1, s.first_bucket_bytes, s.bucket_bytes) AS is_full
    ) c
    WHERE f.place < len(l.sizes)
)
SELECT n.trace_id, n.number, n.gradient_bytes, n.up_to_bytes, n.ready_s, n.after_s,
    ceil(n.gradient_bytes / s.slice_bytes)::BIGINT AS slices, f.bucket
FROM numbered n
CROSS JOIN _dp_setting s
JOIN listed l USING (trace_id)
JOIN filled f ON f.trace_id = n.trace_id AND f.place = len(l.sizes) + 1 - n.number
