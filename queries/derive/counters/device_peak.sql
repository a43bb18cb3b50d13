/*
title    = "Peak rates of each GPU"
question = "What are the peak rates of this GPU, and where do they come from?"
source   = "NVIDIA CUDA C++ programming guide, arithmetic throughput table; product datasheets"
needs    = ["device", "gpu_architectures", "gpu_products"]
grain    = "device of a trace"
returns = [
    "trace_id", "process_id", "device_id", "peak_fp32_flops", "peak_fp16_flops",
    "peak_tensor_fp16_flops", "peak_tensor_tf32_flops", "peak_tensor_bf16_flops",
    "peak_tensor_fp8_flops", "peak_tensor_fp4_flops", "peak_fp64_flops", "clock_hz", "sm_count",
    "clock_source", "tensor_clock_hz", "compute_capability", "product",
    "memory_bandwidth_bytes_per_s", "evidence",
]
[columns]
device_id = "device, numbered as in kernel.device_id"
peak_fp32_flops = """SMs × FP32 lanes × 2 × clock, or the datasheet's where the product table has it
    (AMD); NULL if a factor is unknown"""
peak_fp16_flops = """half precision outside the tensor cores; NULL when unknown, or if the GPU has
    no separate FP16 arithmetic"""
peak_tensor_fp16_flops = """dense FP16 on tensor cores with FP32 accumulation; NULL without tensor
    cores, and if the product is unknown and products of its compute capability differ"""
peak_tensor_tf32_flops = "dense TF32 on tensor cores; NULL as peak_tensor_fp16_flops"
peak_tensor_bf16_flops = """dense BF16 on tensor cores with FP32 accumulation; NULL as
    peak_tensor_fp16_flops"""
peak_tensor_fp8_flops = """dense FP8 on tensor cores with FP32 accumulation; NULL as
    peak_tensor_fp16_flops"""
peak_tensor_fp4_flops = """dense FP4 on tensor cores; NULL without them, and if the product is
    unknown"""
peak_fp64_flops = "double precision outside the tensor cores; NULL when unknown"
clock_hz = """boost clock, used for all but the tensor peaks; NULL if neither trace nor product
    table contain it"""
sm_count = {unit = "SM", doc = """streaming multiprocessors; NULL if neither trace nor product table
    contain the number"""}
clock_source = "source of clock_hz: trace, product table; NULL when the clock is unknown"
tensor_clock_hz = """clock used for the tensor peaks; some products have a lower boost clock while
    tensor cores run"""
compute_capability = "compute capability, such as 8.0, from the trace, else from the product table"
product = "row of gpu_products whose pattern matches the device name; NULL without a match"
memory_bandwidth_bytes_per_s = """peak device-memory bandwidth, from the
    trace, else from the product table"""
evidence = "sources of SM count, clock, rates per SM and product row; NULL if all are unknown"
*/
WITH matched AS (
    -- One row per device; an exact product wins over a product family, which has no compute
    -- capability.
    SELECT
        d.trace_id,
        d.process_id,
        d.device_id,
        p.product,
        coalesce(d.compute_capability, CAST(p.compute_capability AS VARCHAR)) AS compute_capability,
        coalesce(nullif(d.sm_count, 0), p.sm_count) AS sm_count,
        CASE
            WHEN d.sm_count > 0 THEN 'trace' WHEN p.sm_count IS NOT NULL THEN 'product table'
        END AS sm_source,
        coalesce(nullif(d.clock_hz, 0), CAST(p.boost_clock_mhz * 1e6 AS BIGINT)) AS clock_hz,
        CASE
            WHEN d.clock_hz > 0 THEN 'trace' WHEN p.boost_clock_mhz IS NOT NULL THEN 'product table'
        END AS clock_source,
        p.tensor_clock_mhz / p.boost_clock_mhz AS product_tensor_clock_ratio,
        p.tensor_rate,
        p.fp64_fma_per_clock,
        -- A part of a GPU has a part of the rates of the product.
        coalesce(CAST(nullif(d.sm_count, 0) AS DOUBLE) / p.sm_count, 1) * 1e12 AS tflops,
        p.fp32_tflops,
        p.tensor_fp16_tflops,
        p.tensor_bf16_tflops,
        p.tensor_tf32_tflops,
        p.tensor_fp8_tflops,
        p.tensor_fp4_tflops,
        coalesce(
            nullif(d.memory_bandwidth_bytes_per_s, 0),
            CAST(p.memory_bandwidth_gb_per_s * 1e9 AS BIGINT)
        ) AS memory_bandwidth_bytes_per_s,
        p.evidence AS product_evidence
    FROM device AS d
    LEFT JOIN gpu_products AS p
        -- Profilers print the same product with and without vendor and brand.
        ON regexp_full_match(regexp_replace(trim(d.name), '^(NVIDIA |Tesla )+', ''), p.name_pattern)
        AND (
            d.compute_capability IS NULL
            OR p.compute_capability IS NULL
            OR CAST(p.compute_capability AS VARCHAR) = d.compute_capability
        )
    QUALIFY row_number() OVER (
        PARTITION BY d.trace_id, d.process_id, d.device_id
        ORDER BY p.compute_capability IS NULL, p.product
    ) = 1
),
rated AS (
    SELECT
        m.* EXCLUDE (fp64_fma_per_clock),
        a.fp32_fma_per_clock,
        a.fp16_fma_per_clock,
        coalesce(m.fp64_fma_per_clock, a.fp64_fma_per_clock) AS fp64_fma_per_clock,
        a.tensor_fp16_flop_per_clock,
        a.tensor_bf16_flop_per_clock,
        a.tensor_tf32_flop_per_clock,
        a.tensor_fp8_flop_per_clock,
        a.tensor_fp4_flop_per_clock,
        m.sm_count * CAST(m.clock_hz AS DOUBLE) AS sm_clocks_per_s,
        m.clock_hz
        * coalesce(m.product_tensor_clock_ratio, a.tensor_clock_ratio) AS tensor_clock_hz,
        -- Some products run their tensor cores at half rate, so the share of an unknown product is
        -- unknown, unless all products of its compute capability agree.
        CASE
            WHEN m.product IS NOT NULL THEN m.tensor_rate
            WHEN NOT a.tensor_rate_by_product THEN 1.0
        END AS tensor_share,
        a.throughput_evidence
    FROM matched AS m
    LEFT JOIN gpu_architectures AS a
        ON CAST(a.compute_capability AS VARCHAR) = m.compute_capability
)
SELECT
    trace_id,
    process_id,
    device_id,
    -- A fused multiply-add is two FLOP.
    coalesce(fp32_tflops * tflops, sm_clocks_per_s * fp32_fma_per_clock * 2) AS peak_fp32_flops,
    sm_clocks_per_s * fp16_fma_per_clock * 2 AS peak_fp16_flops,
    coalesce(
        tensor_fp16_tflops * tflops,
        sm_count * tensor_clock_hz * tensor_share * tensor_fp16_flop_per_clock
    ) AS peak_tensor_fp16_flops,
    coalesce(
        tensor_tf32_tflops * tflops,
        sm_count * tensor_clock_hz * tensor_share * tensor_tf32_flop_per_clock
    ) AS peak_tensor_tf32_flops,
    coalesce(
        tensor_bf16_tflops * tflops,
        sm_count * tensor_clock_hz * tensor_share * tensor_bf16_flop_per_clock
    ) AS peak_tensor_bf16_flops,
    coalesce(
        tensor_fp8_tflops * tflops,
        sm_count * tensor_clock_hz * tensor_share * tensor_fp8_flop_per_clock
    ) AS peak_tensor_fp8_flops,
    -- Products with a half rate have it not for FP4.
    coalesce(
        tensor_fp4_tflops * tflops, sm_count * tensor_clock_hz * tensor_fp4_flop_per_clock
    ) AS peak_tensor_fp4_flops,
    sm_clocks_per_s * fp64_fma_per_clock * 2 AS peak_fp64_flops,
    clock_hz,
    sm_count,
    clock_source,
    tensor_clock_hz,
    compute_capability,
    product,
    memory_bandwidth_bytes_per_s,
    nullif(
        concat_ws(
            ', ',
            'SM count: ' || sm_source,
            'clock: ' || clock_source,
            'rates per SM: ' || throughput_evidence,
            'product: ' || product_evidence
        ),
        ''
    ) AS evidence
FROM rated
