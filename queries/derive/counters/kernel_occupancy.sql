/*
title    = "Theoretical and estimated occupancy of each kernel"
question = "How many warps can a launch keep on an SM, and what limits them?"
source   = "NVIDIA occupancy calculator (cuda_occupancy.h)"
needs    = ["kernel", "device_peak", "gpu_architectures"]
grain    = "kernel"
returns = [
    "trace_id", "kernel_id", "theoretical_pct", "active_blocks_per_sm", "limiter", "waves",
    "estimated_achieved_pct", "active_warps_per_sm", "blocks_by_warps", "blocks_by_registers",
    "blocks_by_shared_memory", "blocks_by_slots", "registers_per_block", "shared_bytes_per_block",
    "evidence",
]
[columns]
kernel_id = "the kernel"
theoretical_pct = """resident warps ÷ warp limit of an SM; 0 if not one block fits; NULL if the GPU
    is not in gpu_architectures, or block size or register count are unknown"""
active_blocks_per_sm = {unit = "block", doc = """blocks that fit on one SM: minimum of the four
    limits below"""}
limiter = """grid if the grid has fewer blocks than the GPU holds at once; else the smallest limit:
    warps, registers, shared memory, blocks (the first in this order on a tie)"""
waves = {unit = "wave", doc = """blocks of the grid ÷ (active blocks per SM × SMs); below 1, the
    grid does not fill the GPU"""}
estimated_achieved_pct = """min(active blocks per SM, blocks of the grid ÷ SMs) × threads per block
    ÷ thread limit of an SM; assumes evenly distributed blocks that run for the whole kernel"""
active_warps_per_sm = {unit = "warp", doc = "active blocks per SM × warps per block"}
blocks_by_warps = {unit = "block", doc = """limit by the warp slots of an SM; 0 if a block exceeds
    the thread limit"""}
blocks_by_registers = {unit = "block", doc = """limit by the register file of an SM; 2147483647 if
    the kernel uses no registers"""}
blocks_by_shared_memory = {unit = "block", doc = """limit by shared memory, at the largest
    carve-out; 2147483647 if the kernel uses none"""}
blocks_by_slots = {unit = "block", doc = "limit by the block slots of an SM"}
registers_per_block = {unit = "register", doc = """registers of one block, rounded up to allocation
    units"""}
shared_bytes_per_block = {unit = "byte", doc = """shared memory of one block, with the reservation
    of the system, rounded up to allocation units"""}
evidence = """modelled: from the launch configuration; barriers and thread block clusters are not in
    a trace and not modelled"""
*/
WITH launcher AS (
    -- Device of each kernel: the row of its process, else the row valid for all processes.
    SELECT k.trace_id, k.process_id, k.device_id, d.compute_capability, d.sm_count
    FROM (SELECT DISTINCT trace_id, process_id, device_id FROM kernel) AS k
    INNER JOIN device_peak AS d
        ON d.trace_id = k.trace_id
        AND d.device_id = k.device_id
        AND (d.process_id IS NULL OR d.process_id = k.process_id)
    QUALIFY row_number() OVER (
        PARTITION BY k.trace_id, k.process_id, k.device_id ORDER BY d.process_id NULLS LAST
    ) = 1
),
launch AS (
    SELECT
        k.trace_id,
        k.kernel_id,
        k.grid_x * k.grid_y * k.grid_z AS grid_blocks,
        k.block_x * k.block_y * k.block_z AS block_threads,
        k.registers_per_thread,
        coalesce(k.static_shared_bytes, 0) + k.dynamic_shared_bytes AS requested_shared_bytes,
        l.sm_count,
        a.* EXCLUDE (compute_capability)
    FROM kernel AS k
    LEFT JOIN launcher AS l
        ON l.trace_id = k.trace_id
        AND l.device_id = k.device_id
        AND l.process_id IS NOT DISTINCT FROM k.process_id
    LEFT JOIN gpu_architectures AS a
        ON CAST(a.compute_capability AS VARCHAR) = l.compute_capability
),
allocated AS (
    -- Registers are allocated per warp, shared memory per block, in units of gpu_architectures.
    SELECT
        *,
        -- NULL for a block of 0 threads, which is a fault of the file.
        nullif((block_threads + 31) // 32, 0) AS block_warps,
        (registers_per_thread * 32 + registers_per_warp_unit - 1)
        // registers_per_warp_unit * registers_per_warp_unit AS warp_registers,
        (requested_shared_bytes + shared_reserved_bytes_per_block + shared_unit_bytes - 1)
        // shared_unit_bytes * shared_unit_bytes AS block_shared_bytes
    FROM launch
),
limited AS (
    SELECT
        *,
        CASE
            WHEN block_threads > max_threads_per_block THEN 0
            ELSE max_warps_per_sm // block_warps
        END AS blocks_by_warps,
        CASE
            WHEN registers_per_thread > max_registers_per_thread THEN 0
            -- cuda_occupancy.h admits a block as if its warps were spread over four sub-partitions.
            -- GP100 has two, but the same limit as the other Pascal GPUs.
            WHEN warp_registers * ((block_warps + 3) // 4 * 4) > max_registers_per_block THEN 0
            WHEN warp_registers = 0 THEN 2147483647
            -- All registers of a warp are in one sub-partition.
            ELSE registers_per_sm // sub_partitions // warp_registers * sub_partitions
                // block_warps
        END AS blocks_by_registers,
        CASE
            WHEN block_shared_bytes
                > shared_bytes_per_block_optin + shared_reserved_bytes_per_block THEN 0
            WHEN block_shared_bytes = 0 THEN 2147483647
            ELSE shared_bytes_per_sm // block_shared_bytes
        END AS blocks_by_shared_memory,
        max_blocks_per_sm AS blocks_by_slots
    FROM allocated
),
resident AS (
    SELECT
        *,
        CASE
            WHEN
                blocks_by_warps IS NOT NULL
                AND blocks_by_registers IS NOT NULL
                AND blocks_by_shared_memory IS NOT NULL
                THEN least(
                    blocks_by_warps, blocks_by_registers, blocks_by_shared_memory, blocks_by_slots
                )
        END AS active_blocks_per_sm
    FROM limited
)
SELECT
    trace_id,
    kernel_id,
    100.0 * active_blocks_per_sm * block_warps / max_warps_per_sm AS theoretical_pct,
    active_blocks_per_sm,
    CASE
        WHEN grid_blocks < active_blocks_per_sm * sm_count THEN 'grid'
        WHEN active_blocks_per_sm = blocks_by_warps THEN 'warps'
        WHEN active_blocks_per_sm = blocks_by_registers THEN 'registers'
        WHEN active_blocks_per_sm = blocks_by_shared_memory THEN 'shared memory'
        WHEN active_blocks_per_sm = blocks_by_slots THEN 'blocks'
    END AS limiter,
    grid_blocks / nullif(active_blocks_per_sm * sm_count, 0) AS waves,
    -- CASE instead of least(), which ignores NULL.
    CASE
        WHEN active_blocks_per_sm <= grid_blocks / sm_count THEN active_blocks_per_sm
        WHEN active_blocks_per_sm > grid_blocks / sm_count THEN grid_blocks / sm_count
    END * 100.0 * block_threads / (max_warps_per_sm * 32) AS estimated_achieved_pct,
    active_blocks_per_sm * block_warps AS active_warps_per_sm,
    blocks_by_warps,
    blocks_by_registers,
    blocks_by_shared_memory,
    blocks_by_slots,
    warp_registers * block_warps AS registers_per_block,
    block_shared_bytes AS shared_bytes_per_block,
    'modelled' AS evidence
FROM resident
