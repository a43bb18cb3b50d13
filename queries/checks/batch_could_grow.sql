/*
title    = "Peak against the memory of the device"
question = "Does the peak fit the memory of the device, and by which factor could the batch grow?"
source   = """a failed allocation, or live bytes at the peak above what the device leaves to the
    allocator, are severe; held bytes above it a warning. Factor: held bytes on the line through
    the two largest batches of a sweep; for a single batch, live bytes at each event if feature
    maps, their gradients, temporaries and inputs grow with the batch and all other classes
    stay, times held ÷ live bytes at the peaks"""
grain    = "trace: the device with the smallest factor"
needs    = [["memory_event", "memory_segment"]]
optional = [
    "memory_state", "failed_allocation", "_stack_line", "_relevant_memory", "allocation",
    "memory_running", "memory_space", "_device_reading", "device", "trace",
]
[check]
rule = "MEM04"
scope = "trace"
thresholds = "proposed"
advice = """a larger batch can raise the throughput: measure a sweep (tbd-trace collect MODEL
    --batch-size A,B,C) and compare tbd-trace query batch_sweep; or use the memory for a larger
    model or less recomputation"""
collect = """one whole training iteration with the classes of allocations, and the memory of the
    device (--set memory_gb=80)"""
[params.memory_gb]
doc     = "memory of the device, 2^30 bytes; 0 takes the recorded size"
default = 0.0
[params.context_mb]
doc     = """device memory outside the allocator (CUDA context, libraries), 2^20 bytes, if no
    reading of the device shows it"""
default = 500.0
[params.min_batch_factor]
doc     = "factor from which the batch could grow"
default = 2.0
*/
WITH
setting AS (
    SELECT getvariable('memory_gb')::DOUBLE * 1073741824 AS given_bytes,
        getvariable('context_mb')::DOUBLE * 1048576 AS context_bytes,
        getvariable('min_batch_factor')::DOUBLE AS min_batch_factor
),
run AS (
    SELECT trace_id, batch_size, capture ->> '$.capture_id' AS capture_id,
        coalesce(capture ->> '$.status', 'ok') AS status,
        concat_ws(' ', capture ->> '$.model', capture ->> '$.variant', capture ->> '$.framework',
            capture ->> '$.precision', capture ->> '$.scale') AS sweep
    FROM trace
),
-- The timeline of a capture records the device also for the memory profile beside it.
known_device AS (
    SELECT r.trace_id, d.device_id, min(d.memory_bytes) AS memory_bytes
    FROM run AS r
    JOIN run AS o ON o.trace_id = r.trace_id OR o.capture_id = r.capture_id
    JOIN device AS d ON d.trace_id = o.trace_id
    WHERE d.memory_bytes IS NOT NULL
    GROUP BY r.trace_id, d.device_id
),
reading AS (
    SELECT trace_id, device_id, max(total_bytes) AS total_bytes,
        max(untracked_bytes) AS untracked_bytes
    FROM _device_reading GROUP BY trace_id, device_id
),
reserved AS (
    SELECT j.*, r.batch_size, r.sweep, r.status,
        coalesce(j.peak_reserved_bytes, j.peak_bytes)::DOUBLE AS held_bytes,
        coalesce(nullif(s.given_bytes, 0), d.total_bytes, k.memory_bytes) AS device_bytes,
        device_bytes - coalesce(d.untracked_bytes, s.context_bytes) AS usable_bytes
    FROM _relevant_memory AS j
    JOIN run AS r USING (trace_id)
    CROSS JOIN setting AS s
    LEFT JOIN reading AS d ON d.trace_id = j.trace_id AND d.device_id = j.device_id
    LEFT JOIN known_device AS k ON k.trace_id = j.trace_id AND k.device_id = j.device_id
),
point AS (
    SELECT sweep, device_id, batch_size, max(held_bytes) AS held_bytes,
        lag(batch_size) OVER by_batch AS smaller_batch,
        (max(held_bytes) - lag(max(held_bytes)) OVER by_batch)
        / (batch_size - lag(batch_size) OVER by_batch) AS sample_bytes,
        lead(batch_size) OVER by_batch AS larger_batch
    FROM reserved WHERE batch_size IS NOT NULL AND sweep <> '' AND status = 'ok'
    GROUP BY sweep, device_id, batch_size
    WINDOW by_batch AS (PARTITION BY sweep, device_id ORDER BY batch_size)
),
-- Bytes that grow with the batch, without and with those of unknown class.
part AS (
    SELECT a.space, coalesce(a.born_sequence, -1) AS born, a.died_sequence AS died,
        if(a.class IN ('feature_map', 'activation_gradient', 'temporary', 'input'),
            a.requested_bytes, 0) AS least_bytes,
        -- Memory that is older and stays does not depend on the batch.
        if(a.class = 'unknown' AND coalesce(a.born_sequence, a.died_sequence) IS NOT NULL,
            a.requested_bytes, least_bytes) AS most_bytes,
        if(a.class = 'optimizer_state', a.requested_bytes, 0) AS state_bytes
    FROM allocation AS a
    JOIN reserved AS h USING (space)
    WHERE a.class IN (
        'feature_map', 'activation_gradient', 'temporary', 'input', 'unknown', 'optimizer_state')
),
change AS (
    SELECT space, sequence, sum(least_bytes) AS least_bytes, sum(most_bytes) AS most_bytes,
        sum(state_bytes) AS state_bytes
    FROM (
        FROM (SELECT space, born AS sequence, least_bytes, most_bytes, state_bytes FROM part)
        UNION ALL
        SELECT space, died, -least_bytes, -most_bytes, -state_bytes
        FROM part WHERE died IS NOT NULL
    )
    GROUP BY space, sequence
),
live AS (
    SELECT space, requested_bytes AS bytes, sequence FROM memory_running
    UNION ALL
    SELECT space, start_requested_bytes, -1 FROM memory_space
),
running AS (
    SELECT l.space, l.sequence,
        -- Later iterations have the optimizer state from their begin.
        l.bytes::DOUBLE + coalesce(
            sum(c.state_bytes) OVER (PARTITION BY l.space) - sum(c.state_bytes) OVER so_far, 0
        ) AS bytes,
        sum(c.least_bytes) OVER so_far AS least_bytes, sum(c.most_bytes) OVER so_far AS most_bytes
    FROM live AS l
    JOIN reserved AS h USING (space)
    LEFT JOIN change AS c ON c.space = l.space AND c.sequence = l.sequence
    WINDOW so_far AS (PARTITION BY l.space ORDER BY l.sequence ROWS UNBOUNDED PRECEDING)
),
-- Solve fixed + factor × growing bytes = usable bytes × live ÷ held for each event.
scaled AS (
    SELECT r.space, max(r.least_bytes) AS growing_bytes,
        min((h.usable_bytes * h.peak_bytes / h.held_bytes - r.bytes + r.least_bytes)
            / r.least_bytes) FILTER (r.least_bytes > 0) AS most_factor,
        min((h.usable_bytes * h.peak_bytes / h.held_bytes - r.bytes + r.most_bytes)
            / r.most_bytes) FILTER (r.most_bytes > 0) AS least_factor
    FROM running AS r
    JOIN reserved AS h USING (space)
    GROUP BY r.space
),
evaluated AS (
    SELECT h.*, t.min_batch_factor, p.smaller_batch, p.sample_bytes, s.growing_bytes,
        p.sample_bytes > 0 AS in_sweep,
        if(in_sweep, (h.batch_size + (h.usable_bytes - p.held_bytes) / p.sample_bytes)
            / h.batch_size, s.least_factor) AS least_factor,
        if(in_sweep, least_factor, s.most_factor) AS most_factor,
        CASE
            WHEN h.device_id IS NULL THEN 'the profile is about host memory'
            WHEN h.status <> 'ok'
                THEN format('the run ended early ({})', replace(h.status, '_', ' '))
            WHEN h.device_bytes IS NULL THEN 'the memory of the device is unknown'
            WHEN p.larger_batch IS NOT NULL THEN format(
                'batch {} of the same sweep is judged instead', p.larger_batch)
            WHEN in_sweep THEN NULL
            WHEN h.why_unknown IS NOT NULL THEN h.why_unknown
            WHEN NOT h.has_backward
                THEN 'the recording has no backward pass, and may end before the peak'
            WHEN s.most_factor IS NULL THEN 'bytes that grow with the batch are unknown'
            WHEN least_factor < t.min_batch_factor AND most_factor >= t.min_batch_factor
                THEN format('the device holds between {:.1f} and {:.1f} times the batch: the class '
                        || 'of some bytes is unknown',
                    greatest(least_factor, 0), most_factor)
        END AS why_not
    FROM reserved AS h
    CROSS JOIN setting AS t
    LEFT JOIN point AS p
        ON p.sweep = h.sweep AND p.device_id IS NOT DISTINCT FROM h.device_id
        AND p.batch_size = h.batch_size
    LEFT JOIN scaled AS s USING (space)
),
-- Live bytes at the peak, or of a snapshot without a history at the end: a bound of the peak.
space AS (
    SELECT s.trace_id, s.space, s.device_id, s.moment, s.requested_bytes AS live_bytes,
        coalesce(j.peak_reserved_bytes, s.reserved_bytes) AS held_bytes,
        coalesce(nullif(t.given_bytes, 0), d.total_bytes, k.memory_bytes) AS device_bytes,
        t.given_bytes > 0 AS is_given,
        coalesce(d.untracked_bytes, t.context_bytes) AS other_bytes,
        coalesce(j.label, if(count(*) OVER (PARTITION BY s.trace_id) = 1, '',
            format('device {}: ', s.device_id))) AS label
    FROM memory_state AS s
    CROSS JOIN setting AS t
    LEFT JOIN _relevant_memory AS j USING (space)
    LEFT JOIN reading AS d ON d.trace_id = s.trace_id AND d.device_id = s.device_id
    LEFT JOIN known_device AS k ON k.trace_id = s.trace_id AND k.device_id = s.device_id
    WHERE s.moment IN ('peak', 'end') AND s.device_id IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY s.space ORDER BY s.moment DESC) = 1
),
failed AS (
    SELECT f.trace_id, format('device {}: ', f.device_id) AS label, 'severe' AS severity,
        f.requested_bytes AS value, f.device_free_bytes AS threshold,
        format('an allocation of {}{} failed (out of memory){}',
            CASE WHEN f.requested_bytes >= 1073741824
                    THEN format('{:.2f} GiB', f.requested_bytes / 1073741824.0)
                WHEN f.requested_bytes IS NOT NULL
                    THEN format('{:.2f} MiB', f.requested_bytes / 1048576.0)
                ELSE 'unknown size' END,
            coalesce(' by ' || l.line, ''),
            coalesce(
                format(', with {:.2f} MiB free on the device', f.device_free_bytes / 1048576.0), '')
        ) AS reason
    FROM failed_allocation AS f
    LEFT JOIN _stack_line AS l USING (trace_id, stack_id)
    QUALIFY row_number() OVER (PARTITION BY f.trace_id, f.space ORDER BY f.sequence DESC) = 1
),
exceeding AS (
    SELECT trace_id, label, if(live_bytes > device_bytes - other_bytes, 'severe', 'warning')
            AS severity,
        if(severity = 'severe', live_bytes, held_bytes) AS value,
        greatest(device_bytes - other_bytes, 0) AS threshold,
        format('{} {:.2f} GiB {}, more than the {:.2f} GiB that a device of {:.2f} GiB leaves to '
                || 'the allocator',
            CASE WHEN moment = 'end' THEN 'at the end of the recording'
                WHEN severity = 'severe' THEN 'at the peak' ELSE 'at most' END,
            value / 1073741824.0, if(severity = 'severe', 'are live', 'are held'),
            greatest(device_bytes - other_bytes, 0) / 1073741824.0, device_bytes / 1073741824.0
        ) AS reason
    FROM space
    -- On its own device the run did fit, whatever its context takes.
    WHERE is_given AND greatest(live_bytes, coalesce(held_bytes, 0)) > device_bytes - other_bytes
),
full_device AS (
    SELECT *, row_number() OVER (
            PARTITION BY trace_id ORDER BY severity, is_failure DESC, value DESC, label) AS number
    FROM (
        SELECT *, true AS is_failure FROM failed
        UNION ALL
        SELECT *, false FROM exceeding
    )
),
unknown_device AS (
    SELECT trace_id, label,
        if(device_bytes IS NULL, 'the memory of the device is unknown',
            'the snapshot has no history, and the peak is not recorded') AS why_not,
        device_bytes IS NULL AS lacks_device
    FROM space WHERE space NOT IN (SELECT space FROM reserved)
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY live_bytes DESC, label) = 1
),
batch AS (
    SELECT trace_id,
        CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
             WHEN least_factor >= min_batch_factor THEN 'finding' ELSE 'pass' END AS verdict,
        CASE WHEN verdict = 'finding' THEN 'note' END AS severity,
        CASE WHEN why_not IS NULL THEN least_factor END AS value,
        min_batch_factor AS threshold, 'times the batch' AS unit,
        CASE WHEN why_not IS NOT NULL THEN NULL WHEN in_sweep THEN 'extrapolated'
             ELSE 'modelled' END AS evidence,
        label || CASE
            WHEN why_not IS NOT NULL THEN why_not
            ELSE CASE
                    WHEN in_sweep THEN format(
                        'from batch {} to {}, the held bytes grow by {} per sample to {}',
                        smaller_batch, batch_size, format_bytes(sample_bytes::BIGINT),
                        format_bytes(held_bytes::BIGINT))
                    ELSE format('up to {} of feature maps, temporaries and inputs grow with the '
                            || 'batch (the peak of all classes is {}{})',
                        format_bytes(growing_bytes::BIGINT), format_bytes(peak_bytes), peak_during)
                END
                || CASE WHEN least_factor < 1 THEN format(
                        '; this does not fit the {} that a device of {} leaves to the '
                            || 'allocator',
                        format_bytes(greatest(usable_bytes, 0)::BIGINT),
                        format_bytes(device_bytes::BIGINT))
                    ELSE format('; a device of {} holds {:.1f} times the batch',
                            format_bytes(device_bytes::BIGINT), least_factor)
                        || coalesce(
                            format(' (batch {})', floor(least_factor * batch_size + 1e-9)::BIGINT),
                            '')
                END
        END AS reason,
        CASE WHEN device_bytes IS NULL AND device_id IS NOT NULL
            THEN 'pass the memory of the device: --set memory_gb=80' END AS advice
    FROM evaluated
    QUALIFY row_number() OVER (
        PARTITION BY trace_id
        ORDER BY list_position(['finding', 'not evaluable', 'pass'], verdict) DESC,
            least_factor NULLS LAST, label) = 1
)
SELECT trace_id, 'finding' AS verdict, severity, value::DOUBLE AS value,
    threshold::DOUBLE AS threshold, 'byte' AS unit, 'allocator' AS evidence,
    label || reason AS reason,
    'tbd-trace why names what holds the memory, and what to change' AS advice
FROM full_device WHERE number = 1
UNION ALL
SELECT * FROM batch WHERE trace_id NOT IN (SELECT trace_id FROM full_device)
UNION ALL
SELECT trace_id, 'not evaluable', NULL, NULL, NULL, 'times the batch', NULL, label || why_not,
    if(lacks_device, 'pass the memory of the device: --set memory_gb=80', NULL)
FROM unknown_device
WHERE trace_id NOT IN (SELECT trace_id FROM full_device UNION SELECT trace_id FROM batch)
ORDER BY trace_id
