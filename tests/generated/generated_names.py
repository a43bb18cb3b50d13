"""Names and properties that generated timelines choose from."""

from __future__ import annotations

KERNELS = [
    "ampere_sgemm_128x64_tn", "sm80_xmma_fprop_implicit_gemm_tf32f32", "cudnn::bn_fw_tr_1C11",
    "void at::native::vectorized_elementwise_kernel<4, at::native::relu>(int)",
    "softmax_warp_forward", "nll_loss_forward_reduce_cuda_kernel_2d", "max_pool_forward_nchw",
    "void at::native::multi_tensor_apply_kernel<adam>", "LSTM_elementWise_fp", "unknown_thing",
    "flash_fwd_kernel", "void at::native::reduce_kernel<512>", "embedding_backward_kernel",
    "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_nn",
]  # fmt: skip
COLLECTIVES = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_AllGather_RING_LL_Sum_int8_t",
    "ncclDevKernel_Generic", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"]  # fmt: skip
LAYERS = ["conv1", "bn1", "fc", "attention.0"]
OPERATORS = ["aten::conv2d", "aten::batch_norm", "aten::addmm", "aten::bmm"]
NODES = ["ConvolutionBackward0", "NativeBatchNormBackward0", "AddmmBackward0", "BmmBackward0"]
INPUTS = {
    "aten::addmm": ([[64], [32, 128], [128, 64], [], []], ["float", "float", "float", "", ""],
        ["", "", "", "1", "1"]),
    "aten::bmm": ([[8, 32, 16], [8, 16, 32]], ["c10::Half", "c10::Half"], ["", ""]),
    "aten::mm": ([[32, 16], [16, 8]], ["float", "double"], ["", ""]),
    "aten::convolution": ([[4, 3, 32, 32], [8, 3, 3, 3], [8], [], [], [], [], [], []],
        ["float", "float", "float", "", "", "", "", "", ""],
        ["", "", "", "[2, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]),
}  # fmt: skip
DEVICES = [
    {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "sm_count": 108,
     "clock_hz": 1_410_000_000, "memory_bytes": 40 << 30, "max_warps_per_sm": 64,
     "max_blocks_per_sm": 32, "max_registers_per_sm": 65536, "max_registers_per_block": 65536,
     "max_threads_per_block": 1024, "max_shared_bytes_per_sm": 167_936,
     "max_shared_bytes_per_block": 49_152, "memory_bandwidth_bytes_per_s": 1_555_000_000_000},
    {"name": "Quadro P4000", "compute_capability": "6.1", "sm_count": 14,
     "clock_hz": 1_480_000_000, "memory_bytes": 8 << 30},
    {"name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0", "sm_count": None,
     "clock_hz": None, "memory_bytes": 16 << 30},
    {"name": "Unknown GPU", "compute_capability": None},
]  # fmt: skip
COUNTERS = {
    "ncu": [
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum",
        "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "gpc__cycles_elapsed.max", "gpu__time_duration.sum", "dram__bytes_read.sum",
        "dram__bytes_write.sum", "sm__maximum_warps_per_active_cycle_pct",
    ],
    "nvprof": [
        "flop_count_sp", "flop_count_sp_fma", "flop_count_hp", "single_precision_fu_utilization",
        "tensor_precision_fu_utilization", "achieved_occupancy", "dram_read_transactions",
        "dram_write_bytes", "elapsed_cycles_sm",
    ],
}  # fmt: skip
SAMPLED = ["SM Active [Throughput %]", "SM Issue [Throughput %]", "Tensor Active [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "SM FMA Heavy Pipe Throughput [Throughput %]"]  # fmt: skip
