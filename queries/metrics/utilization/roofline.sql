/*
title    = "Roofline"
question = """Is each kernel limited by device memory or by arithmetic, and how close to the limit
    does it run?"""
source   = """Williams, Waterman, Patterson: Roofline (CACM 52:4, 2009): FLOP/s against FLOP per
    byte of device memory, under min(peak, intensity × bandwidth)"""
grain    = "kernel name (or layer), precision and evidence, per device used by a process"
needs    = ["kernel_work", "kernel_traffic"]
optional = ["device_peak", "process"]
reduce   = "concat"
returns = [
    "trace_id", "pid", "device_id", "kernel_name", "layer", "precision", "kernels", "flop",
    "dram_bytes", "total_ns", "arithmetic_intensity", "achieved_flops", "peak_flops",
    "memory_bandwidth_bytes_per_s", "bandwidth_pct", "attainable_flops", "attained_pct", "bound",
    "covered_pct", "evidence", "bytes_evidence", "reason",
]
[params.by]
doc = """kernel: one row per kernel name; layer: one row per layer, also with FLOP that cannot be
    divided among its kernels"""
choices = ["kernel", "layer"]
default = "kernel"
[columns]
device_id = "device; NULL when unknown"
kernel_name = "demangled name; NULL with by=layer"
layer = "layer; NULL with by=kernel, and for kernels without a layer"
precision = """fp32, fp16 (outside the tensor cores) or tensor; one row per precision with FLOP;
    work without any FLOP has a row with fp32"""
kernels = {unit = "kernel", doc = "executions with known FLOP and bytes"}
flop = {unit = "FLOP", doc = "floating-point operations of these executions"}
dram_bytes = """bytes read from and written to device memory (kernel_traffic); with several
    precisions, each row has all bytes"""
total_ns = """sum of the durations of these executions; with several precisions, each row has all
    time"""
arithmetic_intensity = {unit = "FLOP/byte", doc = "FLOP ÷ bytes; NULL if reason explains it"}
achieved_flops = "FLOP ÷ total duration; NULL if reason explains it"
peak_flops = """peak of the device for this precision; if layers differ in arithmetic, the
    FLOP-weighted harmonic mean of their peaks"""
memory_bandwidth_bytes_per_s = "peak bandwidth of the device memory"
bandwidth_pct = "bytes ÷ (total duration × peak bandwidth); NULL if reason explains it"
attainable_flops = "roof: min(peak, intensity × bandwidth)"
attained_pct = "achieved ÷ attainable; NULL without FLOP"
bound = "memory if intensity × bandwidth is below the peak, else compute"
covered_pct = "share of the time of all kernels of the row with known FLOP and bytes"
evidence = """source of the FLOP: counter or modelled; without counted bytes, bytes_evidence is
    modelled"""
bytes_evidence = """source of the bytes: counter; modelled is the least traffic, so that intensity
    and roof are upper limits"""
reason = "why the row has no point; NULL with a point"
[plot]
kind = "roofline"
x = "arithmetic_intensity"
y = ["achieved_flops"]
series = ["precision", "evidence", "device_id"]
log = ["x", "y"]
x_title = "arithmetic intensity (FLOP/byte)"
roof = ["peak_flops", "memory_bandwidth_bytes_per_s"]
label = ["kernel_name", "layer"]
*/
WITH
setting AS (SELECT getvariable('by') AS by_what),
work AS (
    SELECT w.*, t.dram_bytes, t.evidence AS bytes_evidence,
        CASE WHEN by_what = 'kernel' THEN kernel_name END AS row_kernel,
        CASE WHEN by_what = 'layer' THEN layer END AS row_layer,
        -- FLOP of a layer cannot be divided among its kernels.
        w.evidence = 'counter' OR w.is_own OR by_what = 'layer' AS is_shown
    FROM kernel_work w
    CROSS JOIN setting
    LEFT JOIN kernel_traffic t ON t.trace_id = w.trace_id AND t.kernel_id = w.kernel_id
),
all_kernels AS (
    SELECT trace_id, process_id, device_id, row_kernel, row_layer, sum(duration_ns) AS kernel_ns
    FROM (
        SELECT DISTINCT trace_id, process_id, device_id, row_kernel, row_layer, kernel_id,
            duration_ns
        FROM work
    )
    GROUP BY ALL
),
-- Floating-point sums depend on the order of rows; ORDER BY makes them reproducible.
summed AS (
    SELECT trace_id, process_id, device_id, row_kernel, row_layer, precision, evidence,
        count(*) FILTER (known) AS kernels,
        sum(flop ORDER BY kernel_id) FILTER (known) AS flop,
        sum(dram_bytes ORDER BY kernel_id) FILTER (known) AS dram_bytes,
        sum(duration_ns) FILTER (known)::BIGINT AS total_ns,
        -- The weakest evidence of the row.
        max(bytes_evidence) FILTER (known) AS bytes_evidence,
        -- Kernels without FLOP need no peak.
        sum(CASE WHEN flop = 0 THEN 0 ELSE flop / peak_flops END ORDER BY kernel_id)
            FILTER (known) AS ideal_s,
        max(peak_flops) AS highest_peak,
        bool_or(flop > 0 AND peak_flops IS NULL) AS lacks_peak,
        bool_or(flop IS NULL) AS lacks_flop,
        bool_or(dram_bytes IS NULL) AS lacks_bytes,
        bool_or(
            flop > 0
            OR (flop IS NULL AND coalesce(pipe_active_pct, pipe_elapsed_pct, pipe_level) > 0)
        ) AS worked
    FROM (
        SELECT *,
            flop IS NOT NULL AND dram_bytes IS NOT NULL AND duration_ns IS NOT NULL AS known
        FROM work
    )
    WHERE evidence IS NOT NULL AND is_shown
    GROUP BY trace_id, process_id, device_id, row_kernel, row_layer, precision, evidence
    -- Keep precisions with work; a kernel or layer without any work keeps its fp32 row.
    QUALIFY coalesce(worked, false) OR (
        precision = 'fp32'
        AND NOT coalesce(
            bool_or(bool_or(
                flop > 0
                OR (flop IS NULL AND coalesce(pipe_active_pct, pipe_elapsed_pct, pipe_level) > 0)
            )) OVER (PARTITION BY trace_id, process_id, device_id, row_kernel, row_layer), false))
),
rated AS (
    SELECT s.*, 100.0 * coalesce(s.total_ns, 0) / nullif(a.kernel_ns, 0) AS covered_pct,
        CASE WHEN NOT coalesce(s.lacks_peak, false)
            THEN coalesce(s.flop / nullif(s.ideal_s, 0), s.highest_peak) END AS peak_flops,
        p.memory_bandwidth_bytes_per_s::DOUBLE AS bandwidth,
        s.flop / nullif(s.dram_bytes, 0) AS intensity,
        s.flop / nullif(s.total_ns, 0) * 1e9 AS flops,
        s.dram_bytes / nullif(s.total_ns, 0) * 1e9 AS bytes_per_s
    FROM summed s
    JOIN all_kernels a
        ON  a.trace_id = s.trace_id AND a.process_id = s.process_id AND a.device_id = s.device_id
        AND a.row_kernel IS NOT DISTINCT FROM s.row_kernel
        AND a.row_layer IS NOT DISTINCT FROM s.row_layer
    LEFT JOIN device_peak p
        ON  p.trace_id = s.trace_id AND p.device_id = s.device_id
        AND (p.process_id IS NULL OR p.process_id = s.process_id)
),
evaluated AS (
    SELECT *,
        -- Below 95 % coverage, the missing kernels could move the point. Rounding keeps a value of
        -- exactly 100 % below the limit.
        CASE
            WHEN kernels = 0 AND lacks_flop
                THEN 'FLOP unknown: only the use of the pipe was measured'
            WHEN kernels = 0 AND lacks_bytes
                THEN 'bytes unknown: the traffic of device memory was not counted'
            WHEN total_ns IS NULL OR total_ns = 0 THEN 'the durations of the kernels are unknown'
            WHEN covered_pct < 95
                THEN if(evidence = 'counter', 'counters cover only ', 'FLOP and bytes cover only ')
                    || round(covered_pct, 1) || ' % of the kernel time'
            WHEN dram_bytes = 0 THEN 'no traffic of device memory: the caches served it all'
            WHEN round(100 * flops / peak_flops, 6) > 100 THEN 'above the physical peak ('
                || round(100 * flops / peak_flops, 1) || ' %): FLOP, peak or times are wrong'
            WHEN round(100 * bytes_per_s / bandwidth, 6) > 100 AND bytes_evidence = 'modelled'
                THEN 'caches served a part of the least traffic'
            WHEN round(100 * bytes_per_s / bandwidth, 6) > 100
                THEN 'above the physical bandwidth (' || round(100 * bytes_per_s / bandwidth, 1)
                    || ' %): bytes, bandwidth or times are wrong'
        END AS why_not,
        -- CASE instead of least(), which ignores NULL.
        CASE WHEN peak_flops <= intensity * bandwidth THEN peak_flops
             WHEN peak_flops > intensity * bandwidth THEN intensity * bandwidth END AS roof
    FROM rated
)
SELECT j.trace_id, p.pid, nullif(j.device_id, -1) AS device_id, j.row_kernel AS kernel_name,
    j.row_layer AS layer, j.precision, j.kernels, j.flop, j.dram_bytes, j.total_ns,
    CASE WHEN j.why_not IS NULL THEN j.intensity END AS arithmetic_intensity,
    CASE WHEN j.why_not IS NULL THEN j.flops END AS achieved_flops,
    j.peak_flops, j.bandwidth AS memory_bandwidth_bytes_per_s,
    CASE WHEN j.why_not IS NULL THEN 100.0 * j.bytes_per_s / j.bandwidth END AS bandwidth_pct,
    CASE WHEN j.why_not IS NULL THEN j.roof END AS attainable_flops,
    CASE WHEN j.why_not IS NULL THEN 100.0 * j.flops / nullif(j.roof, 0) END AS attained_pct,
    CASE WHEN j.why_not IS NOT NULL THEN NULL WHEN j.roof < j.peak_flops THEN 'memory'
         WHEN j.roof = j.peak_flops THEN 'compute' END AS bound,
    j.covered_pct, j.evidence, j.bytes_evidence,
    coalesce(j.why_not, CASE WHEN j.peak_flops IS NULL THEN 'peak of this device unknown: no roof'
        WHEN j.bandwidth IS NULL THEN 'bandwidth of this device unknown: no roof' END) AS reason
FROM evaluated j
LEFT JOIN process p ON p.trace_id = j.trace_id AND p.process_id = j.process_id
ORDER BY j.trace_id, p.pid, j.process_id, device_id, j.total_ns DESC NULLS LAST,
    j.row_kernel NULLS LAST, j.row_layer NULLS LAST, j.precision, j.evidence
