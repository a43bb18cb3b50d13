-- Kernels of the code objects.
SELECT
    part,
    id AS kernel_id,
    display_name,
    kernel_name AS symbol,
    group_segment_size AS group_bytes,
    arch_vgpr_count + coalesce(accum_vgpr_count, 0) AS registers
FROM raw_info_kernel_symbol
