/*
title    = "Fragmentation"
question = "How much of the memory that the allocator holds is not used, and why?"
source   = """state of the segments and blocks in the snapshot: held = requested + rounding +
    pending + free inside used segments + free segments"""
grain    = "device, or segment type, pool and stream of a device (parameter by)"
needs    = ["memory_segment", "memory_block"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "segment_type", "pool", "stream_id", "segments",
    "reserved_bytes", "requested_bytes", "rounding_bytes", "pending_bytes", "free_inside_bytes",
    "free_segment_bytes", "largest_free_bytes", "fragmentation_pct",
]
[columns]
segment_type = "small (blocks up to 1 MiB) or large; NULL for all"
pool = "memory pool; NULL for all"
stream_id = "stream; NULL for all"
segments = "number of segments"
reserved_bytes = "bytes that the allocator holds"
requested_bytes = "live bytes as requested by the program; NULL when unknown"
rounding_bytes = "live blocks less requested bytes: rounding; NULL when unknown"
pending_bytes = "blocks that are released but still used by a stream"
free_inside_bytes = """free blocks in segments with live blocks, which cannot be returned to the
    device"""
free_segment_bytes = """segments without live blocks, which `torch.cuda.empty_cache()` returns to
    the device"""
largest_free_bytes = """largest free block: a larger request needs a new segment; 0 without a free
    block"""
fragmentation_pct = "free inside used segments ÷ held bytes"
[params.by]
doc     = "device: one row per device; pool: one row per segment type, pool and stream"
choices = ["device", "pool"]
default = "device"
[plot]
kind = "stacked_barh"
x    = ["device_id", "segment_type", "pool", "stream_id"]
y    = ["requested_bytes", "rounding_bytes", "pending_bytes", "free_inside_bytes",
    "free_segment_bytes"]
*/
WITH
block AS (
    SELECT trace_id, process_id, device_id, segment_address,
        sum(bytes) FILTER (state = 'active_allocated') AS live_bytes,
        sum(requested_bytes) FILTER (state = 'active_allocated') AS requested_bytes,
        bool_and(requested_bytes IS NOT NULL) FILTER (state = 'active_allocated')
            AS knows_requested,
        coalesce(sum(bytes) FILTER (state = 'active_pending_free'), 0) AS pending_bytes,
        coalesce(sum(bytes) FILTER (state = 'inactive'), 0) AS free_bytes,
        max(bytes) FILTER (state = 'inactive') AS largest_free_bytes
    FROM memory_block
    GROUP BY ALL
),
segment AS (
    SELECT s.trace_id, s.process_id, s.device_id,
        if(by_pool, s.segment_type, NULL) AS segment_type,
        if(by_pool, s.pool, NULL) AS pool,
        if(by_pool, s.stream_id, NULL) AS stream_id,
        s.total_bytes, coalesce(b.live_bytes, 0) AS live_bytes,
        coalesce(b.requested_bytes, 0) AS requested_bytes,
        coalesce(b.knows_requested, true) AS knows_requested,
        coalesce(b.pending_bytes, 0) AS pending_bytes,
        coalesce(b.free_bytes, s.total_bytes) AS free_bytes,
        coalesce(b.largest_free_bytes, if(b.segment_address IS NULL, s.total_bytes, 0))
            AS largest_free_bytes
    FROM memory_segment AS s
    CROSS JOIN (SELECT getvariable('by') = 'pool' AS by_pool)
    LEFT JOIN block AS b
        ON b.trace_id = s.trace_id
        AND b.process_id IS NOT DISTINCT FROM s.process_id
        AND b.device_id IS NOT DISTINCT FROM s.device_id
        AND b.segment_address = s.address
),
summed AS (
    SELECT trace_id, process_id, device_id, segment_type, pool, stream_id,
        count(*) AS segments,
        sum(total_bytes)::BIGINT AS reserved_bytes,
        if(bool_and(knows_requested), sum(requested_bytes), NULL)::BIGINT AS requested_bytes,
        if(bool_and(knows_requested), sum(live_bytes - requested_bytes), NULL)::BIGINT
            AS rounding_bytes,
        sum(pending_bytes)::BIGINT AS pending_bytes,
        coalesce(sum(free_bytes) FILTER (live_bytes + pending_bytes > 0), 0)::BIGINT
            AS free_inside_bytes,
        coalesce(sum(free_bytes) FILTER (live_bytes + pending_bytes = 0), 0)::BIGINT
            AS free_segment_bytes,
        max(largest_free_bytes) AS largest_free_bytes
    FROM segment
    GROUP BY ALL
)
SELECT *, 100 * free_inside_bytes / nullif(reserved_bytes, 0) AS fragmentation_pct
FROM summed
ORDER BY trace_id, process_id, device_id, segment_type, pool, stream_id
