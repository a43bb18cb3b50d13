/*
title    = "Map of the segments"
question = "Where in the allocator's segments are live blocks, and where is free memory?"
source   = """blocks of the snapshot in the order of their addresses; neighbours of one state are
    one run, and the rounding of a run of live blocks is put at its end"""
grain    = "run of blocks of one state in a segment_id, largest segments of a device first"
needs    = ["memory_segment"]
optional = ["memory_block"]
reduce   = "concat"
returns = [
    "trace_id", "process_id", "device_id", "segment_id", "segment_type", "pool", "stream_id",
    "segment_bytes", "offset_bytes", "bytes", "state", "blocks", "segments", "reserved_bytes",
]
[columns]
segment_id = "number of the segment on its device, from 1 for the largest; equal sizes by address"
pool = "memory pool"
stream_id = "stream; NULL when unknown"
segment_bytes = "size of the segment"
offset_bytes = "begin of the run, from the begin of the segment"
bytes = {unit = "byte", doc = "size of the run"}
state = """live (as requested; with rounding where the requested size is unknown), rounding, pending
    (released, a stream still uses it), free, unrecorded (in no block)"""
blocks = "blocks of the run; NULL for rounding and unrecorded bytes"
segments = "segments of the device, shown or not"
reserved_bytes = "bytes of all segments of the device, shown or not"
[params.top]
doc     = "segments per device, largest first; 0 for all"
default = 20
[plot]
kind   = "stacked_barh"
x      = ["segment_id", "segment_type", "pool", "stream_id"]
start  = "offset_bytes"
y      = ["bytes"]
series = "state"
panels = ["trace_id", "process_id", "device_id"]
limit  = 4000
*/
WITH
ranked AS (
    SELECT *,
        row_number() OVER (
            PARTITION BY trace_id, process_id, device_id ORDER BY total_bytes DESC, address
        ) AS segment_id,
        count(*) OVER (PARTITION BY trace_id, process_id, device_id) AS segments,
        sum(total_bytes) OVER (PARTITION BY trace_id, process_id, device_id) AS reserved_bytes
    FROM memory_segment
),
shown AS (
    FROM ranked
    WHERE getvariable('top') = 0 OR segment_id <= getvariable('top')
),
placed AS (
    SELECT s.trace_id, s.process_id, s.device_id, s.segment_id, s.total_bytes,
        coalesce(b.address - s.address, 0)::BIGINT AS offset_bytes,
        -- A segment without blocks is free.
        coalesce(b.bytes, s.total_bytes) AS bytes, b.requested_bytes,
        CASE b.state
            WHEN 'active_allocated' THEN 'live'
            WHEN 'active_pending_free' THEN 'pending'
            ELSE 'free'
        END AS state
    FROM shown AS s
    LEFT JOIN memory_block AS b
        ON b.trace_id = s.trace_id
        AND b.process_id IS NOT DISTINCT FROM s.process_id
        AND b.device_id IS NOT DISTINCT FROM s.device_id
        AND b.segment_address = s.address
        AND b.address >= s.address  -- databases of earlier versions can have others
),
bounded AS (
    FROM placed
    UNION ALL BY NAME
    -- The begin of each segment, from which a first block could be apart.
    SELECT trace_id, process_id, device_id, segment_id, total_bytes, 0 AS offset_bytes, 0 AS bytes
    FROM placed GROUP BY ALL
),
gap AS (
    SELECT *, offset_bytes + bytes AS end_bytes,
        lead(offset_bytes, 1, total_bytes) OVER (
            PARTITION BY trace_id, process_id, device_id, segment_id ORDER BY offset_bytes, bytes
        ) AS next_offset_bytes
    FROM bounded
),
tiled AS (
    FROM placed
    UNION ALL BY NAME
    SELECT trace_id, process_id, device_id, segment_id, end_bytes AS offset_bytes,
        next_offset_bytes - end_bytes AS bytes, 'unrecorded' AS state
    FROM gap WHERE next_offset_bytes > end_bytes
),
numbered AS (
    SELECT *,
        -- Neighbours of one state have the same difference.
        row_number() OVER (
            PARTITION BY trace_id, process_id, device_id, segment_id ORDER BY offset_bytes
        ) - row_number() OVER (
            PARTITION BY trace_id, process_id, device_id, segment_id, state ORDER BY offset_bytes
        ) AS run
    FROM tiled
),
run AS (
    SELECT trace_id, process_id, device_id, segment_id, state,
        min(offset_bytes) AS offset_bytes,
        sum(bytes)::BIGINT AS bytes,
        if(state = 'unrecorded', NULL, count(*)) AS blocks,
        if(
            state = 'live' AND bool_and(requested_bytes IS NOT NULL),
            sum(bytes - requested_bytes), 0
        )::BIGINT AS rounding_bytes
    FROM numbered
    GROUP BY trace_id, process_id, device_id, segment_id, state, run
),
part AS (
    SELECT trace_id, process_id, device_id, segment_id, offset_bytes, state, blocks,
        bytes - rounding_bytes AS bytes
    FROM run
    UNION ALL
    SELECT trace_id, process_id, device_id, segment_id, offset_bytes + bytes - rounding_bytes,
        'rounding', NULL, rounding_bytes
    FROM run WHERE rounding_bytes > 0
)
SELECT s.trace_id, s.process_id, s.device_id, s.segment_id, s.segment_type, s.pool, s.stream_id,
    s.total_bytes AS segment_bytes, p.offset_bytes, p.bytes, p.state, p.blocks, s.segments,
    s.reserved_bytes::BIGINT AS reserved_bytes
FROM shown AS s
JOIN part AS p
    ON p.trace_id = s.trace_id
    AND p.process_id IS NOT DISTINCT FROM s.process_id
    AND p.device_id IS NOT DISTINCT FROM s.device_id
    AND p.segment_id = s.segment_id
ORDER BY s.trace_id, s.process_id, s.device_id, s.segment_id, p.offset_bytes, p.bytes DESC
