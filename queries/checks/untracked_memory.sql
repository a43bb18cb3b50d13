/*
title    = "Device memory outside the allocator"
question = "Which share of the device's memory is in use outside the framework's allocator?"
source   = """bytes in use on the device less bytes that the allocators held then; the reading with
    the largest difference"""
grain    = "trace: the device with the largest share"
needs    = ["memory_device"]
optional = ["_device_reading"]
reduce   = "concat"
[check]
rule = "MEM05"
scope = "trace"
thresholds = "proposed"
advice = """look for other processes on the device, contexts of data-loader workers, buffers of
    collectives (NCCL_BUFFSIZE, fewer communicators) and workspaces of libraries; with
    CUDA_MODULE_LOADING=LAZY, kernels are loaded at their first use"""
collect = "readings of the device's memory in use beside the events of the allocator"
[params.max_untracked_pct]
doc = "maximum share of the device's memory that is used outside the allocator, in percent"
default = 15.0
*/
WITH
setting AS (
    SELECT getvariable('max_untracked_pct')::DOUBLE AS max_untracked_pct
),
highest AS (
    SELECT * FROM _device_reading
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, device_id
        ORDER BY untracked_bytes DESC NULLS LAST, total_bytes DESC NULLS LAST, timestamp_ns) = 1
),
evaluated AS (
    SELECT h.*, t.*, 100.0 * h.untracked_bytes / h.total_bytes AS untracked_pct,
        if(count(*) OVER (PARTITION BY h.trace_id) = 1, '', format('device {}: ', h.device_id))
            AS label,
        CASE
            WHEN h.total_bytes IS NULL THEN 'the memory of the device is unknown'
            WHEN h.untracked_bytes IS NULL
                THEN 'the bytes that the allocator held were not recorded'
        END AS why_not
    FROM highest AS h CROSS JOIN setting AS t
)
SELECT trace_id,
    CASE WHEN why_not IS NOT NULL THEN 'not evaluable'
         WHEN untracked_pct > max_untracked_pct THEN 'finding' ELSE 'pass' END AS verdict,
    CASE WHEN verdict = 'finding' THEN 'warning' END AS severity,
    CASE WHEN why_not IS NULL THEN untracked_pct END AS value,
    max_untracked_pct AS threshold, '%' AS unit,
    CASE WHEN why_not IS NULL THEN 'device' END AS evidence,
    label || coalesce(why_not, format(
        '{} of {} in use on the device are outside the allocator, {:.1f} % of the device''s {}',
        format_bytes(untracked_bytes), format_bytes(used_bytes), untracked_pct,
        format_bytes(total_bytes))) AS reason,
    NULL::VARCHAR AS advice
FROM evaluated
QUALIFY row_number() OVER (
    PARTITION BY trace_id
    ORDER BY list_position(['pass', 'not evaluable', 'finding'], verdict) DESC,
        untracked_pct DESC NULLS LAST, device_id) = 1
ORDER BY trace_id
