-- Events of a memory log, in the order of the file. Sizes as allocated are modelled: PyTorch's CUDA
-- allocator rounds up to 512 bytes. As HUGEINT, results beyond 64 bits become NULL when they are
-- written.
SELECT
    sequence,
    t::HUGEINT * $time_unit AS timestamp_ns,
    $device AS device_id,
    stream AS stream_id,
    CASE action WHEN 'alloc' THEN 'allocate' ELSE action END AS operation,
    $allocator AS allocator,
    address,
    bytes,
    if(action <> 'classify', bytes, NULL) AS requested_bytes,
    if(
        action IN ('alloc', 'free'), greatest((bytes::HUGEINT + 511) // 512 * 512, 512), NULL
    ) AS allocated_bytes,
    operator, class, layer, phase, iteration, dtype, shape
FROM memory_log
WHERE action <> 'device'
