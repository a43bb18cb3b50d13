/*
title    = "Limits of kernels, sampled"
question = """Does memory or do the compute units limit the kernels of each GPU, and do tensor cores
    work?"""
source   = """means of periodic GPU metrics over samples whose time kernels fill at least half;
    proposed: a unit above 60 % of its peak is the limit, tensor cores below 1 % are unused"""
grain    = "device of a process with samples while kernels run"
needs    = ["sample_interval"]
optional = ["busy_interval"]
returns = [
    "trace_id", "process_id", "device_id", "samples", "sm_active_pct", "sm_issue_pct", "tensor_pct",
    "dram_pct", "occupancy_pct", "sentence",
]
[columns]
device_id = "device; taken to be the physical GPU of the same number"
samples = "samples while kernels run"
sm_active_pct = "cycles in which SMs have warps; NULL if not sampled"
sm_issue_pct = "cycles in which SMs issue instructions; NULL if not sampled"
tensor_pct = "cycles in which tensor cores work; NULL if not sampled"
dram_pct = "read and write rate of device memory, of its peak; NULL if not sampled"
occupancy_pct = "resident warps, of the limit; NULL if not sampled"
sentence = """what limits the kernels, with the numbers; NULL if memory or issue rate were not
    sampled, or with less than 10 samples"""
*/
WITH
running AS (
    SELECT b.trace_id, b.process_id, b.device_id, s.quantity, s.end_ns,
        any_value(s.value_pct) AS value_pct
    FROM sample_interval s
    JOIN busy_interval b
        ON  b.trace_id = s.trace_id AND coalesce(s.gpu_id, b.device_id) = b.device_id
        AND b.part = 'kernel' AND b.start_ns < s.end_ns AND b.end_ns > s.start_ns
    GROUP BY b.trace_id, b.process_id, b.device_id, s.quantity, s.end_ns
    HAVING sum(least(b.end_ns, s.end_ns) - greatest(b.start_ns, s.start_ns))
        >= any_value(s.end_ns - s.start_ns) / 2
),
mean AS (
    SELECT trace_id, process_id, device_id, count(DISTINCT end_ns) AS samples,
        avg(value_pct) FILTER (quantity = 'sm_active') AS sm_active_pct,
        avg(value_pct) FILTER (quantity = 'sm_issue') AS sm_issue_pct,
        avg(value_pct) FILTER (quantity = 'tensor') AS tensor_pct,
        avg(value_pct) FILTER (quantity = 'dram_read')
            + avg(value_pct) FILTER (quantity = 'dram_write') AS dram_pct,
        avg(value_pct) FILTER (quantity = 'occupancy') AS occupancy_pct
    FROM running GROUP BY trace_id, process_id, device_id
)
SELECT *,
    CASE WHEN samples < 10 THEN NULL
         WHEN dram_pct >= 60 THEN 'memory limits the kernels'
         WHEN greatest(sm_issue_pct, tensor_pct) >= 60 THEN 'compute units limit the kernels'
         ELSE 'neither memory nor compute units are near their peak' END
    || format(': device memory {:.0f} %, instruction issue {:.0f} %', dram_pct, sm_issue_pct)
    || coalesce(format(', tensor cores {:.0f} %', tensor_pct)
        || CASE WHEN tensor_pct < 1 THEN ' (unused)' ELSE '' END, '')
    || ' of the peak'
    || coalesce(format('; {:.0f} % of the SMs have work', sm_active_pct), '')
    || coalesce(format(', occupancy {:.0f} %', occupancy_pct), '')
    || format(' ({} samples)', samples) AS sentence
FROM mean
