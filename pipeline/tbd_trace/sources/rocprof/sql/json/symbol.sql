-- Kernels of the code objects.
SELECT
    part,
    kernel_id,
    display_name,
    symbol,
    group_bytes,
    vector_registers + coalesce(accumulation_registers, 0) AS registers
FROM json_symbol
