"""Results of PyTorch's linear algebra, transforms, norms and optimizers from their arguments."""

from __future__ import annotations

from rooflab.observe.matching.torch_arguments import SCALAR_TYPES, Seen
from rooflab.observe.matching.torch_results import Arguments, Results, broadcast, rule

_REAL = {"complex64": "fp32", "complex128": "fp64"}
_COMPLEX = {"fp32": "complex64", "fp64": "complex128"}


def _like(x: Seen) -> Seen:
    return Seen(x.shape, x.dtype)


def _info(x: Seen) -> Seen:
    return Seen(x.shape[:-2], "int32")


@rule("linalg_cholesky_ex", "cholesky", "cholesky_inverse", "linalg_matrix_exp", "linalg_householder_product")
def _factor(name: str, given: Arguments) -> Results:
    x = given["self"] if isinstance(given.get("self"), Seen) else given["input"]
    return [_like(x), _info(x)] if name.endswith("_ex") else [_like(x)]


@rule("linalg_lu_factor_ex", "linalg_ldl_factor_ex")
def _pivoted(name: str, given: Arguments) -> Results:
    x = given["A"] if isinstance(given.get("A"), Seen) else given["self"]
    return [_like(x), Seen((*x.shape[:-2], min(x.shape[-2:])), "int32"), _info(x)]


@rule("linalg_lu")
def _lu(name: str, given: Arguments) -> Results:
    x = given["A"]
    *outer, m, n = x.shape
    k = min(m, n)
    return [Seen((*outer, m, m), x.dtype), Seen((*outer, m, k), x.dtype), Seen((*outer, k, n), x.dtype)]


@rule("_linalg_det", "_linalg_slogdet")
def _determinant(name: str, given: Arguments) -> Results:
    x = given["A"]
    one, pivots = Seen(x.shape[:-2], x.dtype), Seen(x.shape[:-1], "int32")
    if "slogdet" in name:
        return [one, Seen(x.shape[:-2], _REAL.get(x.dtype or "", x.dtype)), _like(x), pivots]
    return [one, _like(x), pivots]


@rule("lu_unpack")
def _unpacked(name: str, given: Arguments) -> Results:
    x = given["LU_data"]
    *outer, m, n = x.shape
    k = min(m, n)
    return [Seen((*outer, m, m), x.dtype), Seen((*outer, m, k), x.dtype), Seen((*outer, k, n), x.dtype)]


@rule("linalg_inv_ex")
def _inverse(name: str, given: Arguments) -> Results:
    x = given["A"]
    return [_like(x), _info(x)]


@rule("linalg_pinv")
def _pseudo_inverse(name: str, given: Arguments) -> Results:
    x = given["self"]
    *outer, m, n = x.shape
    return [Seen((*outer, n, m), x.dtype)]


@rule("cholesky_solve", "linalg_lu_solve", "linalg_solve_triangular", "triangular_solve", "linalg_ldl_solve")
def _solved(name: str, given: Arguments) -> Results:
    # The right-hand side is called B, but "self" where the factor is called A or input2.
    if isinstance(given.get("B"), Seen):
        b = given["B"]
        a = next(given[one] for one in ("LU", "LD", "self") if isinstance(given.get(one), Seen))
    else:
        b, a = given["self"], given["A"] if isinstance(given.get("A"), Seen) else given["input2"]
    outer = broadcast(a.shape[:-2], b.shape[:-2])
    x = Seen((*outer, *b.shape[-2:]), b.dtype)
    return [x, Seen((*outer, *a.shape[-2:]), a.dtype)] if ".triangular_solve" in name else [x]


@rule("_linalg_solve_ex")
def _solved_whole(name: str, given: Arguments) -> Results:
    a, b = given["A"], given["B"]
    vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    if vector:
        shape = broadcast(a.shape[:-1], b.shape)
    else:
        shape = (*broadcast(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    return [Seen(shape, b.dtype), _like(a), Seen(a.shape[:-1], "int32"), _info(a)]


@rule("linalg_qr")
def _qr(name: str, given: Arguments) -> Results:
    x, mode = given["A"], given.get("mode") or "reduced"
    *outer, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    return [Seen((0,) if mode == "r" else (*outer, m, k), x.dtype), Seen((*outer, k, n), x.dtype)]


@rule("geqrf")
def _reflectors(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [_like(x), Seen((*x.shape[:-2], min(x.shape[-2:])), x.dtype)]


@rule("ormqr")
def _rotated(name: str, given: Arguments) -> Results:
    return [_like(given["input3"])]


@rule("_linalg_eigh", "linalg_eigh")
def _eigen(name: str, given: Arguments) -> Results:
    x = given["A"] if isinstance(given.get("A"), Seen) else given["self"]
    vectors = Seen((0,), x.dtype) if given.get("compute_v") is False else _like(x)
    return [Seen(x.shape[:-1], _REAL.get(x.dtype or "", x.dtype)), vectors]


@rule("linalg_eig", "_linalg_eigvals")
def _eigen_complex(name: str, given: Arguments) -> Results:
    x = given["self"]
    dtype = _COMPLEX.get(x.dtype or "", x.dtype)
    values = Seen(x.shape[:-1], dtype)
    return [values] if "eigvals" in name else [values, Seen(x.shape, dtype)]


@rule("_linalg_svd")
def _singular(name: str, given: Arguments) -> Results:
    x = given["A"]
    *outer, m, n = x.shape
    k, full = min(m, n), given.get("full_matrices") is True
    values = Seen((*outer, k), _REAL.get(x.dtype or "", x.dtype))
    if given.get("compute_uv") is False:
        return [Seen((0,), x.dtype), values, Seen((0,), x.dtype)]
    return [
        Seen((*outer, m, m if full else k), x.dtype),
        values,
        Seen((*outer, n if full else k, n), x.dtype),
    ]


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r")
def _transformed(name: str, given: Arguments) -> Results:
    x = given["self"]
    shape = list(x.shape)
    if name.endswith("r2c"):
        if given.get("onesided") is not False:
            shape[given["dim"][-1]] = shape[given["dim"][-1]] // 2 + 1
        return [Seen(tuple(shape), _COMPLEX.get(x.dtype or "", x.dtype))]
    if name.endswith("c2r"):
        shape[given["dim"][-1]] = given["last_dim_size"]
        return [Seen(tuple(shape), _REAL.get(x.dtype or "", x.dtype))]
    return [_like(x)]


@rule("addr", "_addmm_activation", "_euclidean_dist")
def _products(name: str, given: Arguments) -> Results:
    if ".addr" in name:
        a, b = given["vec1"], given["vec2"]
        return [Seen((a.shape[0], b.shape[0]), a.dtype)]
    a, b = (given["x1"], given["x2"]) if "dist" in name else (given["mat1"], given["mat2"])
    if "dist" in name:
        return [Seen((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2]), a.dtype)]
    return [Seen((a.shape[0], b.shape[1]), a.dtype)]


@rule("_grouped_mm", "_scaled_grouped_mm")
def _grouped(name: str, given: Arguments) -> Results:
    a, b = given["self"], given.get("mat2") or given["mat2"]
    groups = given["offs"].shape[0] if isinstance(given.get("offs"), Seen) else None
    asked = SCALAR_TYPES.get(given.get("out_dtype"), a.dtype)  # type: ignore[arg-type]
    if a.dim() == 2 and b.dim() == 2:
        shape: tuple[int, ...] = (groups or 0, a.shape[0], b.shape[1])
    elif a.dim() == 2:
        shape = (a.shape[0], b.shape[2])
    elif b.dim() == 2:
        shape = (a.shape[1], b.shape[1])
    else:
        shape = (a.shape[0], a.shape[1], b.shape[2])
    return [Seen(shape, asked)]


@rule("_weight_norm_interface")
def _weight_norm(name: str, given: Arguments) -> Results:
    return [_like(given["v"]), Seen(given["g"].shape, "fp32" if given["g"].dtype == "bf16" else given["g"].dtype)]


@rule("_native_batch_norm_legit_no_training")
def _batch_norm(name: str, given: Arguments) -> Results:
    x = given["input"]
    return [Seen(x.shape, x.dtype, x.strides), Seen((0,), x.dtype), Seen((0,), x.dtype)]


@rule("_batch_norm_with_update", "_batch_norm_no_update")
def _batch_norm_reserving(name: str, given: Arguments) -> Results:
    x = given["input"]
    sums = Seen((x.shape[1],), "fp32")
    return [Seen(x.shape, x.dtype, x.strides), sums, sums, Seen((0,), "int8")]


@rule("batch_norm_backward", "cudnn_batch_norm_backward")
def _batch_norm_backward(name: str, given: Arguments) -> Results:
    x, weight = given["input"], given.get("weight")
    return [_like(x), *([_like(weight), _like(weight)] if isinstance(weight, Seen) else [])]


@rule("_fused_dropout")
def _fused_dropout(name: str, given: Arguments) -> Results:
    x = given["self"]
    return [_like(x), Seen(x.shape, "int8")]


@rule("_foreach_copy", "_foreach_zero", "_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad")
def _updated(name: str, given: Arguments) -> Results:
    several = given["self"]
    return [_like(one) for one in several] if several else None


@rule("_foreach_norm", "_foreach_max", "_foreach_powsum")
def _norms(name: str, given: Arguments) -> Results:
    several = given["self"]
    return [Seen((), one.dtype) for one in several] if several else None
