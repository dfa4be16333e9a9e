"""Attributes that a row of the vocabulary cannot say: from a primitive's parameters to the formula's terms.

Each takes the equation and the sizes of the device axes, and returns attributes. Nothing here needs JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Recipe = Callable[[Any, Mapping[str, int]], Mapping[str, Any]]

# jax.lax.DotAlgorithmPreset: the format that the operands are rounded to.
_ALGORITHMS = {"TF32": "tf32", "BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64", "ANY": "fp8"}


def dot_general(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """k: the product of the contracted sizes; compute: the format of the products, where it is asked for."""
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape = eqn.invars[0].aval.shape
    attrs: dict[str, Any] = {"k": math.prod(int(shape[dim]) for dim in contracted)}
    algorithm = getattr(eqn.params.get("precision"), "name", None)
    if isinstance(algorithm, str) and "_" in algorithm:
        compute = _ALGORITHMS.get(algorithm.partition("_")[0])
        if compute is not None:
            attrs["compute"] = compute
    return attrs


def ragged_dot(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """fma: each row meets the matrix of its group alone, so the groups' sizes need not be known.

    Ragged rows (m of lhs): m · k · n; ragged contraction: the same sum over the groups; ragged batch: ditto.
    """
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, right_k), (_, right_batch) = numbers.dot_dimension_numbers
    left, right = (atom.aval.shape for atom in eqn.invars[:2])
    taken = {*right_k, *right_batch, *numbers.rhs_group_dimensions}
    columns = math.prod(int(size) for dim, size in enumerate(right) if dim not in taken)
    return {"fma": math.prod(int(size) for size in left) * columns}


def conv(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """kernel, groups, transposed: a dilated input is a transposed convolution (its zeros are not multiplied)."""
    params = eqn.params
    numbers = params["dimension_numbers"]
    kernel = eqn.invars[1].aval.shape
    return {
        "kernel": tuple(int(kernel[dim]) for dim in numbers.rhs_spec[2:]),
        "groups": int(params["feature_group_count"]),
        "transposed": any(int(size) > 1 for size in params["lhs_dilation"]),
        "bias": False,
    }


def integer_pow(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """vector: multiplications of squaring and multiplying; special: the division of a negative power."""
    power = int(eqn.params["y"])
    bits = abs(power)
    multiplications = bits.bit_length() - 1 + bits.bit_count() - 1 if bits else 0
    each = 6 if eqn.outvars[0].aval.dtype.kind == "c" else 1
    return {"vector": each * multiplications, "special": int(power < 0)}


def window(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """window: elements under one window."""
    return {"window": math.prod(int(size) for size in eqn.params["window_dimensions"])}


def sort(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """n: how many are sorted together."""
    return {"n": int(eqn.invars[0].aval.shape[eqn.params["dimension"]])}


def top_k(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """n: how many there are; k: how many are kept."""
    return {"n": int(eqn.invars[0].aval.shape[eqn.params.get("axis", -1)]), "k": int(eqn.params["k"])}


def approx_top_k(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """As `top_k`: the approximate one reads the same input."""
    return {"n": int(eqn.invars[0].aval.shape[eqn.params["reduction_dimension"]]), "k": int(eqn.params["k"])}


def fft(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """n: lengths transformed; real: one side is real (RFFT, IRFFT); inverse. fft_type: FFT, IFFT, RFFT, IRFFT."""
    kind = int(eqn.params["fft_type"])
    return {
        "n": tuple(int(length) for length in eqn.params["fft_lengths"]),
        "real": kind >= 2,
        "inverse": kind in (1, 3),
    }


def ranks(eqn: Any, axes: Mapping[str, int]) -> Mapping[str, Any]:
    """ranks: devices that take part; nothing where an axis has no known size."""
    size = eqn.params.get("axis_size")
    if size is not None:
        return {"ranks": int(size)}
    names = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    names = names if isinstance(names, (tuple, list)) else (names,)
    if all(name in axes for name in names):
        return {"ranks": math.prod(axes[name] for name in names)}
    return {}


RECIPES: Mapping[str, Recipe] = {
    recipe.__name__: recipe
    for recipe in (
        dot_general,
        ragged_dot,
        conv,
        integer_pow,
        window,
        sort,
        top_k,
        approx_top_k,
        fft,
        ranks,
    )
}
