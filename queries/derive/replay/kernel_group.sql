/*
title    = "Groups of kernels"
question = "To which cause does the time of a kernel count?"
source   = """kernel_class; precision by data/kernel_precisions.csv, layout by naming conventions of
    cuDNN and PyTorch"""
grain    = "kernel name, per trace"
needs    = ["kernel_class", "kernel_precisions"]
returns = ["trace_id", "name", "cause", "precision", "is_update"]
[columns]
name = "kernel name"
cause = """communication, or gpu_matmul_tensor_core, gpu_matmul_no_tensor_core, gpu_matmul (of
    unknown precision), gpu_attention, gpu_normalization, gpu_layout, gpu_elementwise,
    gpu_optimizer, gpu_reduction, gpu_pooling, gpu_indexing, gpu_other"""
precision = """of matrix work and attention: half (FP16, BF16, FP8), tf32 or fp32; half for kernels
    on tensor cores whose name does not show it; NULL when unknown, and for other kernels"""
is_update = "true for the pointwise kernels of an optimizer that is not fused: addcmul, addcdiv"
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
            WHEN class NOT IN ('CONV', 'GEMM', 'RNN', 'mixture of experts', 'attention') THEN NULL
            WHEN named IS NOT NULL THEN named
            WHEN class <> 'attention' AND tensor_core THEN 'half'
            WHEN class <> 'attention' AND NOT tensor_core THEN 'fp32'
        END AS precision
    FROM kernel_class
    LEFT JOIN (
        SELECT k.name, max_by(p.precision, p.priority) AS named
        FROM (SELECT DISTINCT name FROM kernel_class) k
        JOIN kernel_precisions p ON regexp_matches(k.name, p.pattern)
        GROUP BY k.name
    ) USING (name)
)
