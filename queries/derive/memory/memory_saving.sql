/*
title    = "What changes of a program would save at the peak"
question = "How high would the peak be after a change of the program?"
source   = """the highest live bytes over the whole history without the bytes that the change
    removes; held bytes for expandable segments (column measure)"""
grain    = "change with a saving, per memory space"
needs    = [["memory_event", "memory_segment"]]
optional = [
    "_memory_group", "_peak_allocation", "memory_state", "memory_space", "allocation",
]
returns = [
    "trace_id", "space", "process_id", "device_id", "allocator", "change", "measure", "now_bytes",
    "best_bytes", "likely_bytes", "worst_bytes", "how",
]
[columns]
change = "name, as in data/memory_changes.csv"
measure = "live (requested bytes at the peak) or held (bytes of the allocator)"
now_bytes = "the measure now"
best_bytes = "the measure after the change, at best"
likely_bytes = "the measure after the change, likely"
worst_bytes = "the measure after the change, at worst"
how = "how the numbers are computed"
[advice]
missing = "needs memory events or segments; {memory}"
*/
WITH
-- Feature maps at the peak that the same code makes again and again: those of equal blocks.
repeated AS (
    SELECT space, coalesce(stack_id::VARCHAR, concat_ws('|', operator, shape)) AS code,
        count(*) AS number, sum(requested_bytes) AS bytes, max(requested_bytes) AS largest_bytes
    FROM _peak_allocation
    WHERE class = 'feature_map' AND coalesce(stack_id::VARCHAR, operator) IS NOT NULL
        AND phase IS DISTINCT FROM 'recompute'
    GROUP BY space, code
    HAVING count(*) >= 2
),
blocks AS (
    -- The commonest number: code that runs twice in a block has another one.
    SELECT space, number AS blocks FROM repeated GROUP BY space, number
    QUALIFY row_number() OVER (PARTITION BY space ORDER BY count(*) DESC, number) = 1
),
-- Of each block, checkpoints keep the input, and backward makes one block at a time again.
block AS (
    SELECT r.space, b.blocks, sum(r.bytes) AS bytes,
        sum(greatest(r.bytes / b.blocks, r.largest_bytes)) AS block_bytes
    FROM repeated AS r JOIN blocks AS b USING (space)
    GROUP BY r.space, b.blocks
),
size AS (
    SELECT p.space, p.requested_bytes AS bytes, count(*) AS number
    FROM _peak_allocation AS p
    JOIN repeated AS r ON r.space = p.space
        AND r.code = coalesce(p.stack_id::VARCHAR, concat_ws('|', p.operator, p.shape))
    JOIN block AS b ON b.space = p.space AND p.requested_bytes >= 0.01 * b.block_bytes
    WHERE p.class = 'feature_map'
    GROUP BY p.space, p.requested_bytes
),
input AS (
    SELECT space, min(bytes) AS least_bytes, arg_max(bytes, number) AS usual_bytes,
        max(bytes) AS most_bytes
    FROM size GROUP BY space
),
at_peak AS (
    SELECT space, sum(requested_bytes) FILTER (class = 'feature_map' AND phase
            IS DISTINCT FROM 'recompute') AS feature_bytes,
        sum(requested_bytes) FILTER (class IN (
            'feature_map', 'activation_gradient', 'temporary', 'input')) AS growing_bytes
    FROM _peak_allocation GROUP BY space
),
checkpoint AS (
    SELECT b.space, b.blocks, b.block_bytes,
        greatest(b.bytes - b.block_bytes - b.blocks * i.least_bytes, 0) / p.feature_bytes AS best,
        greatest(b.bytes - b.block_bytes - b.blocks * i.usual_bytes, 0) / p.feature_bytes AS likely,
        greatest(b.bytes - b.block_bytes - b.blocks * i.most_bytes, 0) / p.feature_bytes AS worst
    FROM block AS b JOIN input AS i USING (space) JOIN at_peak AS p USING (space)
),
largest AS (
    SELECT space, max(requested_bytes) FILTER (class = 'optimizer_state') AS state_bytes,
        max(requested_bytes) FILTER (class = 'optimizer_temporary') AS temporary_bytes,
        max(requested_bytes) FILTER (class = 'optimizer_state') IS NOT NULL AS has_state
    FROM allocation GROUP BY space
),
-- Devices of one trace that run the same code: their shares of the batch can be compared.
shared AS (
    SELECT a.space, count(DISTINCT b.space) + 1 AS devices
    FROM (SELECT DISTINCT trace_id, space, stack_id FROM _peak_allocation
        WHERE class = 'feature_map' AND device_id IS NOT NULL) AS a
    JOIN (SELECT DISTINCT trace_id, space, stack_id FROM _peak_allocation
        WHERE class = 'feature_map' AND device_id IS NOT NULL) AS b
        ON b.trace_id = a.trace_id AND b.space <> a.space AND b.stack_id = a.stack_id
    GROUP BY a.space
),
share AS (
    SELECT s.space, s.devices, p.growing_bytes,
        avg(p.growing_bytes) OVER (PARTITION BY m.trace_id) AS mean_bytes
    FROM shared AS s JOIN at_peak AS p USING (space) JOIN memory_space AS m USING (space)
),
states AS (
    SELECT m.trace_id, count(*) AS devices
    FROM largest AS l JOIN memory_space AS m USING (space)
    WHERE l.has_state AND m.device_id IS NOT NULL
    GROUP BY m.trace_id
),
fact AS (
    SELECT m.space, d.devices AS state_devices, l.state_bytes, l.temporary_bytes, c.blocks,
        c.block_bytes, c.best AS checkpoint_best, c.likely AS checkpoint_likely,
        c.worst AS checkpoint_worst, h.devices, h.growing_bytes, h.mean_bytes
    FROM memory_space AS m
    LEFT JOIN largest AS l USING (space)
    LEFT JOIN checkpoint AS c USING (space)
    LEFT JOIN share AS h USING (space)
    LEFT JOIN states AS d USING (trace_id)
),
-- One pass over the history gives the peak after each change.
peak AS (
    SELECT g.space, max(g.live_bytes) AS now_bytes,
        max(g.live_bytes - f.checkpoint_best * g.feature_bytes) AS checkpoint_best,
        max(g.live_bytes - f.checkpoint_likely * g.feature_bytes) AS checkpoint_likely,
        max(g.live_bytes - f.checkpoint_worst * g.feature_bytes) AS checkpoint_worst,
        max(g.live_bytes - 0.746 * g.large_state_bytes) AS eight_bit_best,
        max(g.live_bytes - 0.492 * g.large_state_bytes) AS eight_bit_worst,
        max(g.live_bytes - (1 - 1.0 / f.state_devices) * g.state_bytes) AS sharded,
        max(g.live_bytes - g.state_bytes) AS offload,
        max(g.live_bytes - g.temporary_bytes) AS fused,
        max(g.live_bytes - g.stale_bytes) AS set_to_none,
        max(g.live_bytes - g.most_growing_bytes / 2) AS half_batch_best,
        max(g.live_bytes - g.growing_bytes / 2) AS half_batch_likely,
        max(g.live_bytes - g.feature_bytes / 2) AS half_batch_worst
    FROM _memory_group AS g JOIN fact AS f USING (space)
    GROUP BY g.space
),
live AS (
    SELECT p.space, 'live' AS measure, p.now_bytes, c.*
    FROM peak AS p
    JOIN fact AS f USING (space)
    CROSS JOIN LATERAL (
        SELECT unnest([
            {'change': 'checkpointing', 'best_bytes': p.checkpoint_best,
             'likely_bytes': p.checkpoint_likely, 'worst_bytes': p.checkpoint_worst,
             'how': format('feature maps of {} equal blocks: their inputs and one block of {} stay',
                 f.blocks, format_bytes(TRY_CAST(f.block_bytes AS BIGINT)))},
            {'change': 'optimizer_8bit', 'best_bytes': p.eight_bit_best,
             'likely_bytes': p.eight_bit_best, 'worst_bytes': p.eight_bit_worst,
             'how': 'state of 4 bytes a value becomes 1 byte and 4 bytes for each 256 values; at '
                 || 'worst it has 2 bytes a value now; tensors below 4,096 values stay'},
            {'change': 'optimizer_sharded', 'best_bytes': p.sharded, 'likely_bytes': p.sharded,
             'worst_bytes': p.sharded + f.state_bytes,
             'how': format('each of the {} devices keeps its part of the state; at worst one '
                 || 'tensor more', f.state_devices)},
            {'change': 'optimizer_offload', 'best_bytes': p.offload,
             'likely_bytes': p.offload + f.state_bytes,
             'worst_bytes': p.offload + 2 * f.state_bytes,
             'how': 'the state leaves the device, but for one tensor; at worst for two'},
            {'change': 'optimizer_one_by_one', 'best_bytes': p.fused,
             'likely_bytes': p.fused + f.temporary_bytes,
             'worst_bytes': p.fused + 2 * f.temporary_bytes,
             'how': 'the history without temporary tensors of the optimizer, but for one; at worst '
                 || 'for two'},
            {'change': 'set_to_none', 'best_bytes': p.set_to_none, 'likely_bytes': p.set_to_none,
             'worst_bytes': p.set_to_none,
             'how': 'the history with gradients released at the end of each optimizer step'},
            {'change': 'smaller_batch', 'best_bytes': p.half_batch_best,
             'likely_bytes': p.half_batch_likely, 'worst_bytes': p.half_batch_worst,
             'how': 'half of the feature maps, their gradients, temporaries and inputs, as with '
                 || 'half the batch'},
            {'change': 'balance', 'best_bytes': if(f.growing_bytes > f.mean_bytes,
                 p.now_bytes - f.growing_bytes + f.mean_bytes, NULL),
             'likely_bytes': p.now_bytes - f.growing_bytes + f.mean_bytes,
             'worst_bytes': p.now_bytes - (f.growing_bytes - f.mean_bytes) / 2,
             'how': format('equal shares of the {} that {} devices hold for their batches; at '
                 || 'worst half of the difference',
                 format_bytes(TRY_CAST(f.mean_bytes * f.devices AS BIGINT)), f.devices)}
        ], recursive := true)
    ) AS c
),
-- What expandable segments return depends on where the free memory lies.
held AS (
    SELECT space, 'held' AS measure, reserved_bytes AS now_bytes,
        'expandable_segments' AS change,
        -- At least one page of 20 MiB is partly in use.
        reserved_bytes - greatest(free_inside_bytes - 20971520, whole_page_bytes) AS best_bytes,
        reserved_bytes - whole_page_bytes AS worst_bytes,
        (best_bytes + worst_bytes) / 2 AS likely_bytes,
        format('{} are free in segments with live blocks, {} of them in whole pages of 20 MiB',
            format_bytes(free_inside_bytes), format_bytes(whole_page_bytes)) AS how
    FROM memory_state
    WHERE allocator = 'torch' AND is_expandable IS FALSE AND free_inside_bytes > 0
    QUALIFY row_number() OVER (
        PARTITION BY space ORDER BY list_position(['end', 'peak', 'failure'], moment) DESC) = 1
)
SELECT s.trace_id, c.space, s.process_id, s.device_id, s.allocator, c.change, c.measure,
    TRY_CAST(c.now_bytes AS BIGINT) AS now_bytes,
    TRY_CAST(round(c.best_bytes) AS BIGINT) AS best_bytes,
    TRY_CAST(round(least(c.likely_bytes, c.now_bytes)) AS BIGINT) AS likely_bytes,
    TRY_CAST(round(least(c.worst_bytes, c.now_bytes)) AS BIGINT) AS worst_bytes, c.how
FROM (FROM live UNION ALL BY NAME FROM held) AS c
JOIN (SELECT DISTINCT trace_id, space, process_id, device_id, allocator FROM memory_state) AS s
    USING (space)
WHERE c.best_bytes < c.now_bytes
