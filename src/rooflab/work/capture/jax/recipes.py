"""Attributes that a row of the vocabulary cannot say: from a primitive's parameters to the formula's terms.

Each takes the equation and the scope around it, and returns attributes. Nothing here needs JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rooflab.work.capture.jax.record import Scope

Recipe = Callable[[Any, Scope], Mapping[str, Any]]

# jax.lax.DotAlgorithmPreset: the format that the operands are rounded to.
_ALGORITHMS = {"TF32": "tf32", "BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64", "ANY": "fp8"}


def dot_general(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """k: the product of the contracted sizes; compute: the format of the products, where it is asked for."""
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape = eqn.invars[0].aval.shape
    return {"k": math.prod(int(shape[dim]) for dim in contracted)} | _compute(eqn)


def _compute(eqn: Any) -> dict[str, Any]:
    """compute: the format that a jax.lax.DotAlgorithmPreset asks for."""
    algorithm = getattr(eqn.params.get("precision"), "name", None)
    compute = _ALGORITHMS.get(algorithm.partition("_")[0]) if isinstance(algorithm, str) else None
    return {} if compute is None else {"compute": compute}


def sparse_dot(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """nnz: stored elements of the sparse left side; n: dense elements that each of them meets."""
    (_, contracted), (_, batched) = eqn.params["dimension_numbers"]
    shape = eqn.invars[2].aval.shape
    columns = [int(size) for dim, size in enumerate(shape) if dim not in (*contracted, *batched)]
    return {"nnz": math.prod(map(int, eqn.invars[0].aval.shape)), "n": math.prod(columns)}


def scaled_matmul(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """The contracted size, last in both; the blocks' scales are further inputs."""
    return {"k": int(eqn.invars[0].aval.shape[-1])}


def symmetric_product(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """The contracted size of a · aᵀ, all of it computed."""
    return {"k": int(eqn.invars[0].aval.shape[-1])}


def ragged_dot(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """fma: each row meets the matrix of its group alone, so the groups' sizes need not be known.

    Ragged rows (m of lhs): m · k · n; ragged contraction: the same sum over the groups; ragged batch: ditto.
    """
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, right_k), (_, right_batch) = numbers.dot_dimension_numbers
    left, right = (atom.aval.shape for atom in eqn.invars[:2])
    taken = {*right_k, *right_batch, *numbers.rhs_group_dimensions}
    columns = math.prod(int(size) for dim, size in enumerate(right) if dim not in taken)
    return {"fma": math.prod(int(size) for size in left) * columns}


def conv(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """fma, whatever the layout: the smaller of what outputs need and what inputs reach.

    Outputs: out.elements · C_in/groups · Πkernel, padding included. Inputs: in.elements · C_out/groups ·
    Πkernel, which is exact where the input is dilated (a transposed convolution's zeros are not multiplied)
    or padded so that the output grows (the gradient of an unpadded convolution). A forward convolution
    without dilation keeps the first, padding multiplied, as in other frameworks.
    """
    params = eqn.params
    numbers = params["dimension_numbers"]
    image, kernel, out = (atom.aval.shape for atom in (*eqn.invars, *eqn.outvars))
    taps = math.prod(int(kernel[dim]) for dim in numbers.rhs_spec[2:])
    needed = math.prod(map(int, out)) * int(kernel[numbers.rhs_spec[1]]) * taps
    groups = int(params["feature_group_count"]) * int(params["batch_group_count"])
    reached = math.prod(map(int, image)) * int(kernel[numbers.rhs_spec[0]]) // groups * taps
    dilated = any(int(size) > 1 for size in params["lhs_dilation"])
    transposed = dilated or scope.phase == "backward"
    attrs = {
        "fma": min(needed, reached) if transposed else needed,
        "kernel": tuple(int(kernel[dim]) for dim in numbers.rhs_spec[2:]),
        "groups": groups,
        "transposed": dilated,
        "bias": False,
    }
    return attrs | _compute(eqn)


def integer_pow(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """vector: multiplications of squaring and multiplying; special: the division of a negative power."""
    power = int(eqn.params["y"])
    bits = abs(power)
    multiplications = bits.bit_length() - 1 + bits.bit_count() - 1 if bits else 0
    each = 6 if eqn.outvars[0].aval.dtype.kind == "c" else 1
    return {"vector": each * multiplications, "special": int(power < 0)}


def window(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """window: elements under one window."""
    return {"window": math.prod(int(size) for size in eqn.params["window_dimensions"])}


def sort(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """n: how many are sorted together."""
    return {"n": int(eqn.invars[0].aval.shape[eqn.params["dimension"]])}


def top_k(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """n: how many there are; k: how many are kept."""
    return {"n": int(eqn.invars[0].aval.shape[eqn.params.get("axis", -1)]), "k": int(eqn.params["k"])}


def approx_top_k(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """As `top_k`: the approximate one reads the same input."""
    return {"n": int(eqn.invars[0].aval.shape[eqn.params["reduction_dimension"]]), "k": int(eqn.params["k"])}


def fft(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """n: lengths transformed; real: one side is real (RFFT, IRFFT); inverse. fft_type: FFT, IFFT, RFFT, IRFFT."""
    kind = int(eqn.params["fft_type"])
    return {
        "n": tuple(int(length) for length in eqn.params["fft_lengths"]),
        "real": kind >= 2,
        "inverse": kind in (1, 3),
    }


def ranks(eqn: Any, scope: Scope) -> Mapping[str, Any]:
    """ranks: devices that take part; nothing where an axis has no known size."""
    size = eqn.params.get("axis_size")
    if size is not None:
        return {"ranks": int(size)}
    names = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    names = names if isinstance(names, (tuple, list)) else (names,)
    if all(name in scope.axes for name in names):
        return {"ranks": math.prod(scope.axes[name] for name in names)}
    return {}


RECIPES: Mapping[str, Recipe] = {
    recipe.__name__: recipe
    for recipe in (
        dot_general,
        ragged_dot,
        conv,
        sparse_dot,
        scaled_matmul,
        symmetric_product,
        integer_pow,
        window,
        sort,
        top_k,
        approx_top_k,
        fft,
        ranks,
    )
}
