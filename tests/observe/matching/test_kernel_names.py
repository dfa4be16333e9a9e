"""Kernels known by their names: those of libraries as they write them, and everything else unknown."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files

import pytest

from rooflab.observe.matching.kernel_names import known
from rooflab.work import vocabulary

# Names as profilers wrote them, shortened after what tells them apart.
NAMES = [
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective", ""),
    ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "collective", ""),
    ("Memset (Device)", "create", ""),
    ("[CUDA memcpy Host-to-Device]", "layout", ""),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(…)", "matmul", "bf16"),
    ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", "matmul", ""),
    ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "matmul", "bf16"),
    ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", "matmul", "fp16"),
    ("ampere_sgemm_128x64_tn", "matmul", "fp32"),
    ("volta_h884gemm_64x64_ldg8_nn", "matmul", "fp16"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(…)", "matmul", "tf32"),
    ("cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8", "matmul", "bf16"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x64_execute_kernel__5x_cublas", "matmul", "bf16"),
    ("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x32_stage3", "matmul", "fp64"),
    ("Cijk_Ailk_Bjlk_SB_Bias_AS_SAV_UserArgs_MT64x16x16_MI16x16x1_SN", "matmul", "fp32"),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN", "matmul", "bf16"),
    ("Cijk_Alik_Bljk_HHS_BH_Bias_AS_SAV_MT128x128x64", "matmul", "fp16"),
    ("void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128, 16, 4, 4, false>(…)", "matmul", "fp16"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64", "attention", ""),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64", "attention_backward", ""),
    (
        "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, cutlass::bfloat16_t>>",
        "attention",
        "",
    ),
    ("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>", "attention_backward", ""),
    ("fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)", "attention", "fp16"),
    ("attn_fwd", "attention", ""),
    ("void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(…)", "attention", ""),
    ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize64x64x64", "conv", "bf16"),
    ("sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc", "conv_backward", "fp16"),
    ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false>(…)", "conv", "fp32"),
    ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1", "conv", ""),
    ("igemm_fwd_gtcx35_nhwc_fp16_bx0_ex0_bt128x128x32", "conv", "fp16"),
    ("void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float>", "layout", ""),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>", "norm", ""),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "norm", ""),
    ("void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10>", "softmax", ""),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>",
        "reduction",
        "",
    ),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "pointwise", ""),
    ("void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<c10::BFloat16>>", "create", ""),
    (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>",
        "layout",
        "",
    ),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4>", "copy", ""),
    (
        "void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor>",
        "optimizer",
        "",
    ),
    ("void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor>", "pointwise", ""),
    ("void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<…>", "sort", ""),
    ("void at_cuda_detail::cub::DeviceScanKernel<…>", "scan", ""),
    ("void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long>", "gather", ""),
    ("void at::native::indexFuncLargeIndex<float, long, unsigned int, 2, 2, -2, true>", "scatter", ""),
    ("void at::native::(anonymous namespace)::embedding_backward_feature_kernel<c10::BFloat16>", "scatter", ""),
    ("void at::native::(anonymous namespace)::max_pool_forward_nchw<c10::BFloat16, int>", "pool", ""),
    ("void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>", "reduction", ""),
    ("void at::native::(anonymous namespace)::fused_dropout_kernel_vec<c10::BFloat16, float>", "dropout", ""),
    (
        "void cusparse::csrmv_v3_kernel<std::integral_constant<bool, false>, long, long, float>",
        "sparse_matmul",
        "",
    ),
    ("triton_per_fused_add_native_layer_norm_3", "fused", ""),
]


@pytest.mark.parametrize(("name", "kind", "dtype"), NAMES, ids=[name[:40] for name, _, _ in NAMES])
def test_a_librarys_kernel_is_known(name, kind, dtype):
    found = known(name)
    assert (found.kind, found.dtype) == (kind, dtype)


@pytest.mark.parametrize(
    "name",
    ["k", "my_kernel", "void step(float*, int)", "", "saxpy", "stencil_3d", "triton_", "reduce_to_one", "normal"],
)
def test_a_name_of_nobodys_is_unknown(name):
    assert known(name) is None


def test_the_operators_of_a_compilers_kernel_are_read_from_its_name():
    assert known("triton_per_fused_add_native_layer_norm_3").operators == "add_native_layer_norm"
    assert known("triton_poi_fused_gelu_12").operators == "gelu"


def test_every_row_has_a_name_that_only_it_is_for_and_kinds_that_exist():
    rows = tomllib.loads((files("rooflab.observe.matching") / "kernel_names.toml").read_text(encoding="utf-8"))
    kinds = {one.kind for one in vocabulary.load("torch").values()} | {"fused", "collective"}
    for row in rows["kernel"]:
        first = next(name for name, _, _ in NAMES if re.search(row["pattern"], name))
        assert first
        assert {row["kind"], *row.get("fits", ())} <= kinds
        assert row["source"]
    used = [
        next(i for i, row in enumerate(rows["kernel"]) if re.search(row["pattern"], name)) for name, _, _ in NAMES
    ]
    assert set(used) == set(range(len(rows["kernel"]))), "a row that no name reaches says nothing"
