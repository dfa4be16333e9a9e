"""What the vocabulary cannot say of a call of NumPy: axes, contracted sizes, what is written in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rooflab.work import einsum as equations

Attrs = Mapping[str, Any]


class Call(NamedTuple):
    """A call of NumPy: its arguments, and the arrays that it gave."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    outputs: Sequence[np.ndarray]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """The argument at `position`, by its name otherwise."""
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


class Derived(NamedTuple):
    """What a recipe says.

    Attributes:
        kind: the formula's name; None where there is none.
        into: what the call writes into, where that is an argument.
        swapped: whether the formula has the first two operands the other way round.
    """

    kind: str | None
    attrs: Attrs
    into: np.ndarray | None = None
    swapped: bool = False


_UNKNOWN = Derived(None, {})


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes that `axis` means, counted from the first; None is all."""
    if axis is None:
        return tuple(range(ndim))
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(int(one) % ndim for one in several)) if ndim else ()


def _power(call: Call, kind: str, attrs: Attrs) -> Derived:
    exponent = call.args[1] if len(call.args) > 1 else None
    number = exponent.item() if isinstance(exponent, (np.ndarray, np.generic)) and exponent.size == 1 else exponent
    # NumPy has quick ways for these (numpy/_core/src/multiarray/number.c: fast_scalar_power).
    quick = {2: "square", 0.5: "sqrt", -1: "reciprocal", 1: "positive"}
    known = isinstance(number, (int, float)) and not isinstance(number, bool) and number in quick
    return Derived(kind, {"function": quick[number] if known else "pow"})


def _product(call: Call, kind: str, attrs: Attrs) -> Derived:
    a, b = np.shape(call.args[0]), np.shape(call.args[1])
    if not a or not b:
        return Derived("pointwise", {"function": "mul"})
    return Derived(kind, {"k": a[-1], **_of_itself(call.args[0], call.args[1])})


def _of_itself(a: Any, b: Any) -> Attrs:
    """A matrix times its own transpose is BLAS's syrk: one triangle is computed and copied to the other.

    That is numpy/_core/src/umath/matmul.c.src (`matmul_matrixmatrix`) and numpy/_core/src/common/cblasfuncs.c: the
    same memory, strides the other way round, in formats that BLAS has.
    """
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.ndim == b.ndim >= 2):
        return {}
    (rows, k), own = a.shape[-2:], a.strides[-2:]
    same = a.__array_interface__["data"][0] == b.__array_interface__["data"][0] and a.dtype == b.dtype
    turned = (
        a.shape[:-2] == b.shape[:-2] and (b.shape[-1], b.shape[-2]) == (rows, k) and b.strides[-2:] == own[::-1]
    )
    in_blas = a.dtype.char in "fdFD" and a.dtype.isnative and a.itemsize in own
    if not (same and turned and in_blas and rows > 1 and k > 1):
        return {}
    return {"fma": math.prod(a.shape[:-2]) * k * rows * (rows + 1) // 2}


def _inner(call: Call, kind: str, attrs: Attrs) -> Derived:
    a, b = np.shape(call.args[0]), np.shape(call.args[1])
    if not a or not b:
        return Derived("pointwise", {"function": "mul"})
    whole = not call.outputs  # vdot flattens both
    if not whole and isinstance(call.args[1], np.ndarray) and len(b) == 2:
        return Derived(kind, {"k": a[-1], **_of_itself(call.args[0], call.args[1].view(np.ndarray).T)})
    return Derived(kind, {"k": math.prod(a) if whole else a[-1]})


def of_diagonals(args: Sequence[Any]) -> Sequence[Any]:
    """The arguments of `einsum` with a view of its diagonal for each operand that has a label twice."""
    if not args or not isinstance(args[0], str) or not all(isinstance(one, np.ndarray) for one in args[1:]):
        return args
    left, arrow, right = args[0].replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(args) - 1 or "..." in left or all(len(set(term)) == len(term) for term in terms):
        return args
    if not arrow:  # labels that occur once, in alphabetical order
        letters = left.replace(",", "")
        right = "".join(sorted(one for one in set(letters) if letters.count(one) == 1))
    distinct = ["".join(dict.fromkeys(term)) for term in terms]
    views = [
        one if short == term else np.einsum(f"{term}->{short}", one.view(np.ndarray)).view(type(one))
        for term, short, one in zip(terms, distinct, args[1:], strict=True)
    ]
    return (f"{','.join(distinct)}->{right}", *views)


def _einsum(call: Call, kind: str, attrs: Attrs) -> Derived:
    """Without `optimize` one loop over all labels, not a product of matrices: its FLOP alone are known."""
    if not isinstance(call.args[0], str):
        return _UNKNOWN
    arrays = call.args[1:]
    found = equations.contraction(call.args[0], [np.shape(one) for one in arrays])
    if found.kind in ("reduction", "layout"):
        return Derived(found.kind, {"function": "sum"} if found.kind == "reduction" else {})
    if found.kind == "pointwise":
        return Derived("pointwise", {"vector": len(arrays) - 1})
    if call.kwargs.get("optimize"):
        own = _over(arrays[0], arrays[1], *_contracted(call.args[0])) if len(arrays) == 2 else {}
        return Derived("matmul", {"k": found.k, "fma": found.multiply_adds, **own})
    outputs = math.prod(call.outputs[0].shape) if call.outputs else 1
    flop = len(arrays) * outputs * found.k * (4 if any(np.iscomplexobj(one) for one in arrays) else 1)
    return Derived(
        "custom", {"flop": float(flop), "kind": "vector", "by": "numpy.einsum, one loop over all labels"}
    )


def _tensordot(call: Call, kind: str, attrs: Attrs) -> Derived:
    a, axes = np.shape(call.args[0]), call.argument(2, "axes", 2)
    if isinstance(axes, int):
        return Derived(kind, {"k": math.prod(a[len(a) - axes :])})
    first, second = (one if isinstance(one, (tuple, list)) else (one,) for one in axes)
    own = _over(call.args[0], call.args[1], first[0], second[0]) if len(first) == 1 else {}
    return Derived(kind, {"k": math.prod(a[axis] for axis in first), **own})


def _over(a: Any, b: Any, first: int | None, second: int | None) -> Attrs:
    """`_of_itself` of two matrices that are multiplied over one axis of each."""
    if not all(isinstance(one, np.ndarray) and one.ndim == 2 for one in (a, b)) or first is None or second is None:
        return {}
    left, right = (one.view(np.ndarray) for one in (a, b))
    return _of_itself(left if first % 2 else left.T, right.T if second % 2 else right)


def _contracted(equation: str) -> tuple[int, int] | tuple[None, None]:
    """The one axis of each of two matrices that "ij,kj->ik" multiplies over; None for any other equation."""
    left, _, right = equation.replace(" ", "").partition("->")
    one, other = left.split(",")
    common = set(one) & set(other)
    if len(one) != 2 or len(other) != 2 or len(common) != 1 or common & set(right) or len(set(one + other)) != 3:
        return None, None
    label = common.pop()
    return one.index(label), other.index(label)


def _rounded(call: Call, kind: str, attrs: Attrs) -> Derived:
    """To so many places: multiplied, rounded and divided by a power of ten."""
    places = call.argument(1, "decimals", 0)
    return Derived(kind, {"vector": 2, "special": 1} if places else {"function": "round"})


def _compared(call: Call, kind: str, attrs: Attrs) -> Derived:
    return Derived(kind, {"vector": int(np.size(call.args[0]))})  # of its one result


def _digitized(call: Call, kind: str, attrs: Attrs) -> Derived:
    return Derived(kind, {**attrs, "n": int(np.size(call.args[1]))}, swapped=True)


def _interpolated(call: Call, kind: str, attrs: Attrs) -> Derived:
    if len(call.args) < 3 or call.kwargs.get("period") is not None or np.iscomplexobj(call.args[2]):
        return _UNKNOWN
    return Derived(kind, {**attrs, "n": int(np.size(call.args[1]))}, swapped=True)


def _condition(call: Call, kind: str, attrs: Attrs) -> Derived:
    """The ratio of the largest and the smallest singular value; by other norms two norms and an inverse."""
    return Derived(kind, {"vectors": False}) if call.argument(1, "p") in (None, 2, -2) else _UNKNOWN


def _reduced(call: Call, kind: str, attrs: Attrs) -> Derived:
    ndim = np.ndim(call.args[0])
    return Derived(kind, {**attrs, "dims": axes_of(call.argument(1, "axis"), ndim)})


def _where(call: Call, kind: str, attrs: Attrs) -> Derived:
    if len(call.args) == 1:
        return Derived("copy", {})  # as nonzero
    return Derived(kind, {"function": "where"})


def _into(call: Call, kind: str, attrs: Attrs) -> Derived:
    written = call.args[0]
    if kind == "copy" and getattr(call.args[1], "dtype", written.dtype) != written.dtype:
        kind = "cast"
    return Derived(kind, attrs, written)


def _put(call: Call, kind: str, attrs: Attrs) -> Derived:
    return Derived(kind, {**attrs, "elements": int(np.size(call.args[1]))}, call.args[0])


def _masked(call: Call, kind: str, attrs: Attrs) -> Derived:
    mask = call.args[0]
    plain = mask.view(np.ndarray) if isinstance(mask, np.ndarray) else mask
    rows = int(np.count_nonzero(plain))  # the indices of these are found first, then taken
    return Derived(kind, {**attrs, "rows": rows}, swapped=True)  # the mask comes first


def masked(array: Any, indices: Sequence[Any]) -> dict[str, int]:
    """What the values of a mask decide: `runs` of neighbours that it picks, or `rows` where it is of rows.

    A mask of all elements is walked, run by run of what is true (NumPy's mapping.c, array_boolean_subscript); one
    of fewer dimensions becomes indices of rows.
    """
    if len(indices) != 1 or not isinstance(indices[0], np.ndarray) or indices[0].dtype != bool:
        return {}
    mask = indices[0].view(np.ndarray)
    if mask.ndim != np.ndim(array):
        return {"rows": int(np.count_nonzero(mask))}
    flat = mask.ravel()
    return {"runs": int(flat[:1].sum()) + int(np.count_nonzero(flat[1:] & ~flat[:-1]))}


def pieces(array: np.ndarray, keys: Sequence[Any], found: np.ndarray) -> dict[str, int]:
    """What indices pick behind a first dimension; {} where they pick rows.

    Returns:
        `pieces` of neighbours, how many elements a `piece` has (of X[:, i] one), and how many lie `within` the
        dimensions that they are picked in (a row): indices that stay the same along a row are no jump.
    """
    plain = [one for one in keys if one is not None]
    if any(one is Ellipsis for one in plain):
        return {}
    taken = [one.ndim if isinstance(one, np.ndarray) and one.dtype.kind == "b" else 1 for one in plain]
    arrays = [at for at, one in enumerate(plain) if isinstance(one, (list, np.ndarray)) and np.ndim(one)]
    if not arrays or arrays[-1] == 0:
        return {}
    behind = np.ndim(array) - sum(taken[: arrays[-1] + 1])
    piece = max(int(np.prod(found.shape[found.ndim - behind :], dtype=np.int64)), 1) if behind > 0 else 1
    jumps = [at for at in arrays[:-1] if np.shape(plain[at])[-1] != 1]
    first = sum(taken[: (jumps or arrays[-1:])[0]])
    within = int(np.prod(np.shape(array)[first:], dtype=np.int64))
    return {"pieces": found.size // piece, "piece": piece, "within": within}


def _counted(call: Call, kind: str, attrs: Attrs) -> Derived:
    return Derived(kind, {**attrs, "elements": int(np.size(call.args[0]))})


def _searched(call: Call, kind: str, attrs: Attrs) -> Derived:
    return Derived(kind, {**attrs, "n": int(np.size(call.args[0]))})


def _whole(call: Call, kind: str, attrs: Attrs) -> Derived:
    return Derived(kind, {**attrs, "n": int(np.size(call.args[0]))})


def _along(call: Call, kind: str, attrs: Attrs) -> Derived:
    x = call.args[0]
    if not isinstance(x, np.ndarray):
        return _UNKNOWN
    partial = attrs["function"] == "kthvalue"
    axis = call.argument(2, "axis", -1) if partial else call.argument(1, "axis", -1)
    n = x.size if axis is None else x.shape[axis] if x.ndim else 1
    picks = _picks(call.argument(1, "kth")) if partial else 1
    return Derived(kind, {**attrs, "n": int(n), **({"picks": picks} if picks > 1 else {})}, None)


def _picks(kth: Any) -> int:
    """How many places of an order are asked for, neighbours as one."""
    places = np.unique(np.asarray(kth, dtype=np.int64))
    return 1 + int((np.diff(places) > 1).sum())


def _convolved(call: Call, kind: str, attrs: Attrs) -> Derived:
    """Over either end the products are of what overlaps alone (NumPy's multiarraymodule.c, _pyarray_correlate)."""
    taps, longer = sorted((int(np.size(call.args[0])), int(np.size(call.args[1]))))
    outputs = call.outputs[0].size if call.outputs else 0
    inside = longer - taps + 1
    over = outputs - inside  # results at both ends whose window is not full
    ends = (over - over // 2, over // 2)
    fma = inside * taps + sum(end * taps - end * (end + 1) // 2 for end in ends)
    return Derived(kind, {"fma": fma, "kernel": (taps,)})


def _qr(call: Call, kind: str, attrs: Attrs) -> Derived:
    mode = call.argument(1, "mode", "reduced")
    return Derived(kind, {"parts": "r" if mode in ("r", "raw") else "qr", "complete": mode == "complete"})


def _svd(call: Call, kind: str, attrs: Attrs) -> Derived:
    vectors = bool(call.argument(2, "compute_uv", True))
    return Derived(kind, {"vectors": vectors, "full": vectors and bool(call.argument(1, "full_matrices", True))})


def _norm(call: Call, kind: str, attrs: Attrs) -> Derived:
    x, order, axis = call.args[0], call.argument(1, "ord"), call.argument(2, "axis")
    ndim = np.ndim(x)
    if order not in (None, "fro") and (ndim if axis is None else len(axes_of(axis, ndim))) == 2:
        return _UNKNOWN  # of a matrix: by singular values, or by sums of rows
    names = {None: "norm", "fro": "norm", 2: "norm", 1: "norm1", np.inf: "norm_inf", -np.inf: "norm_inf"}
    return Derived(kind, {"function": names.get(order, "norm_p"), "dims": axes_of(axis, ndim)})


def _fft(call: Call, kind: str, attrs: Attrs) -> Derived:
    """The lengths are those of the signal: of the larger of what is given and what comes out."""
    x, count = call.args[0], attrs["axes"]
    if not isinstance(x, np.ndarray) or not call.outputs:
        return _UNKNOWN
    signal = call.outputs[0] if attrs.get("inverse") or not attrs.get("real") else x
    given = call.argument(2, "axis" if count == 1 else "axes")
    axes = (-1,) if given is None and count == 1 else range(-(count or x.ndim), 0) if given is None else given
    axes = axes if isinstance(axes, (tuple, list, range)) else (axes,)
    asked = call.argument(1, "n" if count == 1 else "s")
    asked = asked if isinstance(asked, (tuple, list)) or asked is None else (asked,)
    lengths = tuple(int(one) for one in asked or [signal.shape[axis] for axis in axes])
    return Derived(kind, {**{key: attrs[key] for key in ("real", "inverse") if key in attrs}, "n": lengths})


RECIPES: dict[str, Callable[[Call, str, Attrs], Derived]] = {
    "power": _power,
    "product": _product,
    "inner": _inner,
    "einsum": _einsum,
    "tensordot": _tensordot,
    "rounded": _rounded,
    "compared": _compared,
    "digitized": _digitized,
    "interpolated": _interpolated,
    "condition": _condition,
    "reduced": _reduced,
    "where": _where,
    "into": _into,
    "put": _put,
    "masked": _masked,
    "counted": _counted,
    "searched": _searched,
    "along": _along,
    "whole": _whole,
    "convolved": _convolved,
    "qr": _qr,
    "svd": _svd,
    "norm": _norm,
    "fft": _fft,
}
