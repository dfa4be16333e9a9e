"""Convolutions in one to three dimensions: groups, dilation, transposed, and their gradients."""

from __future__ import annotations

import math

from rooflab.types.work import Cost, TensorSpec
from rooflab.work.formulas.cost_terms import (
    compute_dtype,
    cost_of,
    is_complex,
    item_bytes,
    matrix,
    scalar_flop,
    total_bytes,
)
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("conv")
def conv(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a convolution.

    Multiply-adds: every output element sums C_in/groups × Πkernel products; transposed: every input element
    is spread over C_out/groups × Πkernel. Products with padding count, as a matrix unit computes them;
    stride and dilation act through the shapes. Dumoulin and Visin: "A guide to convolution arithmetic for
    deep learning", arXiv:1603.07285. Accessed bytes: an element of x and one of w per multiply-add.

    Args:
        inputs: x (N, C, spatial…), w as PyTorch lays it out (C_out, C_in/groups, kernel…; transposed: C_in,
            C_out/groups, kernel…)[, bias].
        outputs: y[, the state that a causal one hands on].
        attrs: groups (1), transposed (False), bias (False); kernel (default: w's last sizes); or fma
            (multiply-adds, for other layouts); compute (number format of the products, where not x's).
    """
    x, w, y = inputs[0], inputs[1], outputs[0]
    fma = multiply_adds(x, w, y, attrs)
    flop = matrix(fma, attrs.get("compute") or x.dtype)
    loaded = fma * (item_bytes(x) + item_bytes(w))
    if attrs.get("bias"):
        flop += scalar_flop(compute_dtype((y, x)), vector=y.elements * (2 if is_complex(y) else 1))
        loaded += y.elements * item_bytes(inputs[2])
        loaded += total_bytes(inputs[3:])
    else:
        loaded += total_bytes(inputs[2:])
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=loaded,
        note="direct: padding multiplied too",
    )


@formula("conv_backward")
def conv_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a convolution's gradients: as many multiply-adds as forward for each of input and weight.

    grad_x is the convolution transposed, grad_w correlates x with grad; the bias sums grad. Groups divide
    both, as forward. Only what is needed is read: w for grad_x, x for grad_w.

    Args:
        inputs: grad, x, w. outputs: [grad_x], [grad_w], [grad_b], those asked for.
        attrs: as `conv`, and input_grad, weight_grad, bias_grad (True).
    """
    grad, x, w = inputs[:3]
    fma = multiply_adds(x, w, grad, attrs)
    read, loaded, products = [grad], 0.0, 0
    if attrs.get("input_grad", True):
        products += 1
        read.append(w)
        loaded += fma * (item_bytes(grad) + item_bytes(w))
    if attrs.get("weight_grad", True):
        products += 1
        read.append(x)
        loaded += fma * (item_bytes(grad) + item_bytes(x))
    flop = matrix(products * fma, attrs.get("compute") or grad.dtype)
    if attrs.get("bias_grad", True):
        flop += scalar_flop(compute_dtype((grad,)), vector=grad.elements * (2 if is_complex(grad) else 1))
        loaded += grad.elements * item_bytes(grad)
    note = f"{products} convolutions of the forward size; grad read once for both"
    return cost_of(flop, read=total_bytes(read), write=total_bytes(outputs), loaded=loaded, note=note)


def multiply_adds(x: TensorSpec, w: TensorSpec, y: TensorSpec, attrs: Attrs) -> int:
    """Multiply-adds of a convolution of x with w giving y (forward; each gradient has as many)."""
    if "fma" in attrs:
        return attrs["fma"]
    kernel = tuple(attrs.get("kernel") or w.shape[2:])
    groups = attrs.get("groups", 1)
    if attrs.get("transposed"):
        return x.elements * (_channels(y, kernel) // groups) * math.prod(kernel)
    return y.elements * (_channels(x, kernel) // groups) * math.prod(kernel)


def _channels(spec: TensorSpec, kernel: tuple[int, ...]) -> int:
    """The size before the spatial ones: a batch may be missing."""
    return spec.shape[-len(kernel) - 1]
