"""Short names of kernels: cases worked out by hand, and properties of any names."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tbd_trace.kernel_names import is_kernel_name, short_labels

_XMMA = (
    "sm80_xmma_fprop_implicit_gemm_{0}f16_{0}f16_f16_nhwckrsc_nhwc_tilesize128x{1}x32_stage4"
    "_warpsize2x2x1_g1_tensor16x8x16_t1r3s3_execute_kernel_trt"
)
_ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<{0}4, at::native::{1}<{2}>, "
    "at::detail::Array<char*, {0}3>>(int, at::native::{1}<{2}>, at::detail::Array<char*, {0}3>)"
)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (_XMMA.format("f16", "128"), ["fprop", "gemm", "f16f16", "tilesize128x128x32"]),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_16x4_nn_align4>"
            "(cutlass_80_tensorop_s1688gemm_256x128_16x4_nn_align4::Params)",
            ["tensorop", "s1688gemm", "256x128", "16x4", "nn"],
        ),
        (
            "cudnn_infer_ampere_scudnn_128x64_sliced1x4_ldg4_relu_exp_medium_nhwc_tn_v1",
            ["scudnn", "128x64", "nhwc", "tn"],
        ),
        (
            "Cijk_Alik_Bljk_BBS_BH_MT128x64x32_MI32x32x8x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM1_AMAS0",
            ["Cijk", "Alik", "Bljk", "BBS", "MT128x64x32"],
        ),
        (
            "triton_poi_fused_add_convolution_native_batch_norm_backward_relu_threshold_27",
            ["convolution", "backward", "_27"],
        ),
        (
            "void cudnn::detail::implicit_convolve_sgemm<float, float, (int)128, (int)5, (int)5>"
            "(int, int, int, const T1 *)",
            ["implicit_convolve_sgemm", "float", "128x5x5"],
        ),
        (_ELEMENTWISE.format("", "MulFunctor", "c10::Half"), ["elementwise", "MulFunctor", "half"]),
        (
            "void xmma_cudnn::gemm::kernel<xmma_cudnn::implicit_gemm::wgrad_indexed::Kernel_traits<"
            "xmma_cudnn::Cta_tile<xmma_cudnn::Ampere, 64, 32, 64, 2, 2, 1, 1>>>(T1::Params)",
            ["gemm::kernel", "wgrad_indexed", "64x32x64"],
        ),
        (
            "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16Li256EEEvPT0_PT_PfS4_S4_S4_d",
            ["act_and_mul_kernel", "256"],
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::tanh_kernel_cuda("
            "at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::[lambda() "
            "(instance 4)]::operator ()() const::[lambda(float) (instance 1)], int>(int, T2)",
            ["elementwise", "tanh_kernel", "float"],
        ),
    ],
)  # fmt: skip
def test_a_label_keeps_what_distinguishes_kernels(name: str, parts: list[str]) -> None:
    label = short_labels([name], 48)[name]
    assert len(label) <= 48
    assert [part for part in parts if part not in label] == []


def test_names_that_differ_in_one_part_show_it() -> None:
    names = [_XMMA.format("f16", tile) for tile in ("64", "128", "256")]
    labels = list(short_labels(names, 32).values())
    assert all(f"x{tile}x" in label for tile, label in zip((64, 128, 256), labels, strict=True))
    names = [f"void f<{'Policy, ' * 30}{way}>(int)" for way in ("First", "Second")]
    assert [label[-8:] for label in short_labels(names, 20).values()] == [", First>", " Second>"]


def test_spellings_of_different_tools_give_one_label() -> None:
    spelled = [_ELEMENTWISE.format(cast, "AddFunctor", "float") for cast in ("", "(int)")]
    first, second = (short_labels([name], 50)[name] for name in spelled)
    assert first == second == "vectorized_elementwise<4, AddFunctor, float, 3>"


def test_names_that_no_part_distinguishes_end_in_a_stable_hash() -> None:
    names = [
        f"void f<{a}, {b}>(int)"
        for a, b in (("Alpha, " * 9 + "C", "D"), ("D", "C" + ", Alpha" * 9))
    ]
    both = short_labels(names, 12)
    assert len(set(both.values())) == 2
    assert both == short_labels(reversed(names), 12)


def test_short_names_stay_as_they_are() -> None:
    assert short_labels(["volta_sgemm_128x64_tn", "f<int>(int)"], 24) == {
        "volta_sgemm_128x64_tn": "volta_sgemm_128x64_tn",
        "f<int>(int)": "f<int>(int)",
    }


def test_layers_and_files_are_no_kernels() -> None:
    assert is_kernel_name("void f<int>(int)")
    assert is_kernel_name("volta_scudnn_128x64_relu")
    assert not is_kernel_name("bert/encoder/layer_0/attention_output_dense")
    assert not is_kernel_name("features.0.conv")


@pytest.mark.slow
@example({"<" * 60, "(" * 60, "_Z" + "9" * 5000}, 12)
@given(
    st.sets(
        st.lists(
            st.sampled_from(
                ["ns::", "f", "<", ">", "(", ")", ", ", "float", "_12", "128x64", "#2"]
            ),
            min_size=8,
            max_size=40,
        ).map("".join),
        max_size=20,
    ),
    st.integers(12, 60),
)
def test_labels_fit_and_differ(names: set[str], width: int) -> None:
    labels = short_labels(names, width)
    assert labels.keys() == names
    assert all(len(label) <= width for label in labels.values())
    assert len(set(labels.values())) == len(names)
