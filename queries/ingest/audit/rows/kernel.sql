-- Kernels. Implausible values become NULL; the row stays, because its launch is still valid.
-- Limits: a grid of 2^31 - 1 x 65,535 x 65,535 blocks, 1,024 threads per block, 255 registers per
-- thread, and 16 MiB of shared memory, more than any SM has.
WITH evaluated AS (
    SELECT *,
        is_no_time(start_ns, $middle) OR is_no_time(end_ns, $middle) AS has_no_time,
        end_ns < start_ns AS is_reversed,
        is_no_duration(duration_ns) AS has_no_duration,
        is_no_extent(grid_x, 2147483647) OR is_no_extent(grid_y, 65535)
            OR is_no_extent(grid_z, 65535) AS has_no_grid,
        CASE
            WHEN is_no_extent(block_x, 1024) OR is_no_extent(block_y, 1024)
                OR is_no_extent(block_z, 64) THEN true
            ELSE block_x * block_y * block_z > 1024
        END AS has_no_block,
        registers_per_thread NOT BETWEEN 0 AND 255 AS has_no_registers,
        static_shared_bytes NOT BETWEEN 0 AND 16777216 AS has_no_static_shared,
        dynamic_shared_bytes NOT BETWEEN 0 AND 16777216 AS has_no_dynamic_shared,
        shared_executed_bytes NOT BETWEEN 0 AND 16777216 AS has_no_carve_out,
        is_no_size(local_bytes_per_thread) AS has_no_local
    FROM kernel
)

SELECT
    * EXCLUDE (
        has_no_time, is_reversed, has_no_duration, has_no_grid, has_no_block, has_no_registers,
        has_no_static_shared, has_no_dynamic_shared, has_no_carve_out, has_no_local
    ) REPLACE (
        if(has_no_time, NULL, start_ns) AS start_ns,
        if(has_no_time, NULL, end_ns) AS end_ns,
        if(has_no_time OR is_reversed OR has_no_duration, NULL, duration_ns) AS duration_ns,
        if(has_no_grid, NULL, grid_x) AS grid_x,
        if(has_no_grid, NULL, grid_y) AS grid_y,
        if(has_no_grid, NULL, grid_z) AS grid_z,
        if(has_no_block, NULL, block_x) AS block_x,
        if(has_no_block, NULL, block_y) AS block_y,
        if(has_no_block, NULL, block_z) AS block_z,
        if(has_no_registers, NULL, registers_per_thread) AS registers_per_thread,
        if(has_no_static_shared, NULL, static_shared_bytes) AS static_shared_bytes,
        if(has_no_dynamic_shared, NULL, dynamic_shared_bytes) AS dynamic_shared_bytes,
        if(has_no_carve_out, NULL, shared_executed_bytes) AS shared_executed_bytes,
        if(has_no_local, NULL, local_bytes_per_thread) AS local_bytes_per_thread
    ),
    CASE
        WHEN has_no_time THEN 'kernels with implausible times: {}; their times are NULL'
        WHEN is_reversed THEN 'kernels that end before they start: {}; their duration is NULL'
        WHEN has_no_duration THEN 'kernels with an implausible duration: {}; it is NULL'
        WHEN has_no_grid OR has_no_block
            THEN 'kernels with a grid or block of 0 or beyond CUDA''s limits: {}; it is NULL, '
                || 'and their occupancy is unknown'
        WHEN has_no_registers OR has_no_static_shared OR has_no_dynamic_shared OR has_no_carve_out
            OR has_no_local
            THEN 'kernels with implausible registers or shared memory: {}; these are NULL, '
                || 'and their occupancy is unknown'
    END AS fault,
    true AS kept
FROM evaluated
