"""The network of the sample: its layers, their FLOP, and the kernels that compute them.

Everything follows from the shapes. Base durations were chosen, not measured, for plausible
utilisations of an A100. They are multiples of 400 ns, so that all durations that `training`
derives from them are integers.
"""

from __future__ import annotations

from sample_capture.model import BATCH_SIZE, FP16, FP32, Kernel, Layer, Network

IMAGE_CHANNELS, IMAGE_SIDE = 3, 32
CONV1_CHANNELS, BLOCK_CHANNELS = 64, 128
POOL_SIDE = 4
CLASSES = 1000
INPUT_BYTES = BATCH_SIZE * IMAGE_CHANNELS * IMAGE_SIDE**2 * 4

PIXELS = IMAGE_SIDE**2

# FLOP per element, after the usual counts: batch norm reads twice and normalises (8), its gradient
# takes 11, log-softmax 5 and 3.
BN_FORWARD = {"fadd": 3, "fmul": 1, "ffma": 2}
BN_BACKWARD = {"fadd": 3, "fmul": 2, "ffma": 3}
SOFTMAX_FORWARD = {"fadd": 3, "ffma": 1}
SOFTMAX_BACKWARD = {"fadd": 1, "ffma": 1}

# Kernel names as nsys prints them (demangled). ReLU and batch norm share theirs between layers.
_ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<(int)4, {}>(int, T2, T3)"
NAMES = {
    "conv1": "ampere_scudnn_128x64_relu_small_nn_v1",
    "conv1_wgrad": "void cudnn::cnn::wgrad_alg0_engine<float, (int)128, (int)6, (int)7, (int)3,"
    " (int)3, (int)5, (bool)0, (int)512>(int, int, int, const T1 *, int, T1 *, const T1 *)",
    "conv": "ampere_scudnn_128x64_relu_medium_nn_v1",
    "conv_dgrad": "ampere_scudnn_128x64_stridedB_small_nn_v1",
    "conv_wgrad": "ampere_scudnn_128x128_stridedB_splitK_small_nn_v1",
    "conv_search": "void cudnn::cnn::im2col4d_kernel<float, long>(im2col4d_params,"
    " cudnnTensorStruct, const T1 *, T1 *)",
    "bn": "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, (int)512, (bool)1, (int)1>"
    "(cudnnTensorStruct, const T1 *, cudnnTensorStruct, T1 *, const T2 *, const T2 *, T2)",
    "bn_grad": "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, (int)512, (bool)1, (int)1>"
    "(T2, T2, T2, T2, cudnnTensorStruct, const T1 *, cudnnTensorStruct, const T1 *, T1 *)",
    "relu": _ELEMENTWISE.format("at::native::clamp_min_scalar_kernel_impl(float)"),
    "relu_grad": _ELEMENTWISE.format("at::native::threshold_kernel_impl<float>"),
    "pool": "void at::native::<unnamed>::max_pool_forward_nchw<float, float>"
    "(int, const T1 *, T1 *, long *)",
    "pool_grad": "void at::native::<unnamed>::max_pool_backward_nchw<float, float>"
    "(const T1 *, const long *, T1 *)",
    "gemm": "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x6_tn",
    "gemm_dgrad": "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x6_nn",
    "gemm_wgrad": "ampere_fp16_s16816gemm_fp16_64x64_ldg8_f2f_stages_64x6_nt",
    "bias": _ELEMENTWISE.format("at::native::CUDAFunctor_add<c10::Half>"),
    "bias_grad": "void at::native::reduce_kernel<(int)128, (int)4, at::native::ReduceOp<c10::Half,"
    " at::native::sum_functor<c10::Half, float>, unsigned int, c10::Half, (int)4>>(T3)",
    "softmax": "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)1,"
    " (bool)0>(T2 *, const T1 *, int, int, int)",
    "softmax_grad": "void <unnamed>::softmax_warp_backward<float, float, float, (int)10, (bool)1,"
    " (bool)0>(T2 *, const T1 *, const T1 *, int, int, int)",
    "nll": "void at::native::<unnamed>::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>"
    "(T1 *, T1 *, const T1 *, const T3 *, long, long)",
    "nll_grad": "void at::native::<unnamed>::nll_loss_backward_reduce_cuda_kernel_2d<float, long>"
    "(T1 *, const T1 *, const T2 *, long, long)",
    "sgd": "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::"
    "TensorListMetadata<(int)2>, at::native::<unnamed>::BinaryOpListAlphaFunctor<float,"
    " (int)2, (int)2, (int)0>, std::plus<float>, float>(T1, T2, T3, T4)",
}


def small_cnn(blocks: int = 1) -> Network:
    """Return the network: conv1, then ``blocks`` of convolution, batch norm and ReLU, then fc.

    The convolution of the first block has 64 input channels, the others 128 and twice the work.
    """
    layers = [_conv1(), _batch_norm("bn1", CONV1_CHANNELS), _relu("relu1", CONV1_CHANNELS)]
    for block in range(1, blocks + 1):
        layers.append(_block_conv(block))
        layers.append(_batch_norm(f"bn{block + 1}", BLOCK_CHANNELS))
        layers.append(_relu(f"relu{block + 1}", BLOCK_CHANNELS))
    layers += [_pool(), _fc(), _loss()]
    return Network(tuple(layers), _sgd(sum(layer.parameters for layer in layers)))


def _conv1() -> Layer:
    weights = CONV1_CHANNELS * IMAGE_CHANNELS * 9
    macs = weights * PIXELS
    ffma = {"ffma": macs * BATCH_SIZE}
    read, written = INPUT_BYTES, BATCH_SIZE * CONV1_CHANNELS * PIXELS * FP32
    forward = Kernel(
        NAMES["conv1"], 24_000, (256, 1), 256, 64, (0, 16_384), ffma, dram=(read, written)
    )
    gradient = Kernel(
        NAMES["conv1_wgrad"], 28_000, (216, 1), 256, 96, (8_192, 0), ffma,
        dram=(read + written, weights * FP32),
    )  # fmt: skip
    return Layer(
        name="conv1",
        type="Conv2d",
        outputs=CONV1_CHANNELS * PIXELS,
        forward=(forward,),
        backward=(gradient,),  # the images need no gradient
        flop=(2 * macs, 2 * macs),
        parameters=weights,
    )


def _block_conv(block: int) -> Layer:
    inputs = CONV1_CHANNELS if block == 1 else BLOCK_CHANNELS
    work = inputs // CONV1_CHANNELS
    weights = BLOCK_CHANNELS * inputs * 9
    macs = weights * PIXELS
    ffma = {"ffma": macs * BATCH_SIZE}
    read, written = (BATCH_SIZE * c * PIXELS * FP32 for c in (inputs, BLOCK_CHANNELS))
    forward = Kernel(
        NAMES["conv"], 400_000 * work, (256, 2), 256, 128, (0, 32_768), ffma, dram=(read, written)
    )
    data_gradient = Kernel(
        NAMES["conv_dgrad"], 440_000 * work, (256, work), 128, 96, (0, 49_152), ffma,
        dram=(written, read),
    )  # fmt: skip
    weight_gradient = Kernel(
        NAMES["conv_wgrad"], 480_000 * work, (18, 16 * work), 256, 80, (16_384, 0), ffma,
        dram=(read + written, weights * FP32),
    )  # fmt: skip
    search = Kernel(NAMES["conv_search"], 600_000, (2048, 1), 256, 40, dram=(read, 9 * read))
    return Layer(
        name=f"block{block}__conv{block + 1}.0",
        type="Conv2d",
        outputs=BLOCK_CHANNELS * PIXELS,
        forward=(forward,),
        backward=(data_gradient, weight_gradient),
        flop=(2 * macs, 4 * macs),
        parameters=weights,
        workspace_bytes=67_108_864,
        search=search if block == 1 else None,
    )


def _batch_norm(name: str, channels: int) -> Layer:
    elements = BATCH_SIZE * channels * PIXELS
    scale = channels // CONV1_CHANNELS
    size = elements * FP32
    forward = Kernel(
        NAMES["bn"], 16_000 * scale, (channels, 1), 512, 24, (128, 0),
        _per_element(BN_FORWARD, elements), dram=(size, size),
    )  # fmt: skip
    backward = Kernel(
        NAMES["bn_grad"], 32_000 * scale, (channels, 1), 512, 40, (256, 0),
        _per_element(BN_BACKWARD, elements), dram=(2 * size, size),
    )  # fmt: skip
    per_sample = channels * PIXELS
    return Layer(
        name=name,
        type="BatchNorm2d",
        outputs=per_sample,
        forward=(forward,),
        backward=(backward,),
        flop=(8 * per_sample, 11 * per_sample),
        parameters=2 * channels,
    )


def _relu(name: str, channels: int) -> Layer:
    per_sample = channels * PIXELS
    grid = (BATCH_SIZE * per_sample // 512, 1)
    size = BATCH_SIZE * per_sample * FP32
    forward_ns, backward_ns = (14_000, 24_000) if channels == CONV1_CHANNELS else (26_000, 40_000)
    forward = Kernel(NAMES["relu"], forward_ns, grid, 128, 16, dram=(size, size))
    backward = Kernel(NAMES["relu_grad"], backward_ns, grid, 128, 20, dram=(2 * size, size))
    return Layer(
        name=name,
        type="ReLU",
        outputs=per_sample,
        forward=(forward,),
        backward=(backward,),
        # Comparisons count as operations of the layer, but no counter of FP instructions sees them.
        flop=(per_sample, per_sample),
    )


def _pool() -> Layer:
    inputs = BLOCK_CHANNELS * PIXELS
    outputs = inputs // POOL_SIDE**2
    large = BATCH_SIZE * inputs * FP32
    small = BATCH_SIZE * outputs * (FP32 + 8)  # the maximum and its index
    forward = Kernel(
        NAMES["pool"], 16_000, (BATCH_SIZE * outputs // 256, 1), 256, 36, dram=(large, small)
    )
    backward = Kernel(
        NAMES["pool_grad"], 24_000, (BATCH_SIZE * inputs // 256, 1), 256, 32,
        instructions={"fadd": BATCH_SIZE * inputs}, dram=(small, large),
    )  # fmt: skip
    return Layer(
        name="pool",
        type="MaxPool2d",
        outputs=outputs,
        forward=(forward,),
        backward=(backward,),
        flop=(inputs, inputs),  # comparisons forward, additions backward
        fill_bytes=large,
    )


def _fc() -> Layer:
    macs = BLOCK_CHANNELS * PIXELS // POOL_SIDE**2 * CLASSES
    outputs = BATCH_SIZE * CLASSES
    small, large = outputs * FP16, macs * FP16

    def gemm(name: str, base_ns: int, blocks: int, dram: tuple[int, int]) -> Kernel:
        flop = 2 * macs * BATCH_SIZE
        return Kernel(
            NAMES[name], base_ns, (1, blocks), 128, 122, (0, 98_304), tensor_flop=flop, dram=dram
        )

    bias = Kernel(
        NAMES["bias"], 4_000, (63, 1), 128, 18, instructions={"hadd": outputs}, dram=(small, small)
    )
    bias_gradient = Kernel(
        NAMES["bias_grad"], 4_000, (8, 1), 128, 32, (16, 4_096), {"fadd": outputs},
        dram=(small, CLASSES * FP16),
    )  # fmt: skip
    return Layer(
        name="fc",
        type="Linear",
        outputs=CLASSES,
        forward=(gemm("gemm", 12_000, 64, (large, small)), bias),
        backward=(
            gemm("gemm_dgrad", 14_000, 128, (large, small)),
            gemm("gemm_wgrad", 16_000, 2_048, (small, large)),
            bias_gradient,
        ),
        flop=(2 * macs + CLASSES, 4 * macs + CLASSES),
        parameters=macs + CLASSES,
        element_bytes=FP16,
    )


def _loss() -> Layer:
    elements = BATCH_SIZE * CLASSES
    size = elements * FP32

    def softmax(name: str, counts: dict[str, int]) -> Kernel:
        instructions = _per_element(counts, elements)
        return Kernel(
            NAMES[name], 6_000, (8, 1), 128, 32, (0, 0), instructions, 0, elements, (size, size)
        )

    def nll(name: str, additions: int) -> Kernel:
        return Kernel(NAMES[name], 4_000, (1, 1), 32, 32, instructions={"fadd": additions})

    return Layer(
        name="loss",
        type="CrossEntropyLoss",
        outputs=CLASSES,
        forward=(softmax("softmax", SOFTMAX_FORWARD), nll("nll", BATCH_SIZE)),
        backward=(nll("nll_grad", 0), softmax("softmax_grad", SOFTMAX_BACKWARD)),
        flop=(5 * CLASSES + 1, 3 * CLASSES),
    )


def _sgd(parameters: int) -> Kernel:
    # Plain SGD: one multiply-add per parameter.
    size = parameters * FP16
    return Kernel(
        NAMES["sgd"], 48_000, (-(-parameters // 65_536), 1), 512, 32,
        instructions={"ffma": parameters}, dram=(2 * size, size),
    )  # fmt: skip


def _per_element(counts: dict[str, int], elements: int) -> dict[str, int]:
    return {opcode: count * elements for opcode, count in counts.items()}
