/*
title    = "Groups of kernels"
question = "To which cause does the time of a kernel count?"
source   = "kernel_class; precision and layout by naming conventions of cuBLAS, cuDNN and PyTorch"
grain    = "kernel name, per trace"
needs    = ["kernel_class"]
[columns.trace_id]
doc = "the trace"
[columns.name]
doc = "kernel name"
[columns.cause]
doc = """communication, or gpu_matmul_tensor_core, gpu_matmul_no_tensor_core, gpu_matmul (of
    unknown precision), gpu_attention, gpu_normalization, gpu_layout, gpu_elementwise,
    gpu_optimizer, gpu_reduction, gpu_pooling, gpu_indexing, gpu_other"""
[columns.precision]
doc = """of matrix work: half (FP16, BF16, FP8), tf32 or fp32; half for kernels on tensor cores
    whose name does not show it; NULL when unknown, and for other kernels"""
[columns.is_update]
doc = """true for the pointwise kernels of an optimizer that is not fused: addcmul, addcdiv"""
*/
SELECT trace_id, name,
    CASE
        WHEN class = 'communication' THEN 'communication'
        WHEN is_update OR class = 'optimizer' THEN 'gpu_optimizer'
        WHEN class IN ('CONV', 'GEMM', 'RNN', 'mixture of experts')
            THEN CASE coalesce(tensor_core, precision <> 'fp32')
                WHEN true THEN 'gpu_matmul_tensor_core' WHEN false THEN 'gpu_matmul_no_tensor_core'
                ELSE 'gpu_matmul' END
        WHEN class = 'attention' THEN 'gpu_attention'
        WHEN class IN ('batchnorm', 'layernorm') THEN 'gpu_normalization'
        WHEN class = 'memory' AND is_layout THEN 'gpu_layout'
        WHEN class IN ('memory', 'elementwise', 'activation', 'dropout', 'random')
            THEN 'gpu_elementwise'
        WHEN class IN ('reduction', 'softmax', 'loss') THEN 'gpu_reduction'
        WHEN class = 'pooling' THEN 'gpu_pooling'
        WHEN class IN ('embedding', 'indexing', 'sort') THEN 'gpu_indexing'
        ELSE 'gpu_other'
    END AS cause,
    precision, is_update
FROM (
    SELECT trace_id, name, class, tensor_core,
        regexp_matches(name, '(?i)addcmul|addcdiv') AS is_update,
        regexp_matches(name, '(?i)nchw|nhwc|transpos|permut|reformat|convertTensor') AS is_layout,
        CASE
            WHEN class NOT IN ('CONV', 'GEMM', 'RNN', 'mixture of experts') THEN NULL
            WHEN regexp_matches(name, '(?i)tf32') THEN 'tf32'
            WHEN regexp_matches(
                name, '(?i)half|bf16|bfloat|fp16|f16|hgemm|[^a-z]h(884|1688|16816)|e4m3|e5m2')
                THEN 'half'
            WHEN tensor_core THEN 'half'
            WHEN NOT tensor_core THEN 'fp32'
        END AS precision
    FROM kernel_class
)
