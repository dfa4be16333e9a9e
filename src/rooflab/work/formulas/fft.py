"""Fourier transforms."""

from __future__ import annotations

import math

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import cost_of, item_bytes, real_name, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula


@formula("fft")
def fft(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of fast Fourier transforms: 5·N·log₂ N per complex one of N elements, half for a real one.

    N/2 butterflies of log₂ N stages, each a complex product (6) and two complex sums (4): Cooley and Tukey,
    Math. Comp. 19, 1965; the convention of benchFFT for every N, power of two or not. Several dimensions:
    N is the product. Compulsory bytes: in once, out once. Accessed: a load and a store of each element in
    each of the ⌈log₂ N⌉ stages.

    Args:
        inputs: x. outputs: y.
        attrs: n: tuple of transformed lengths (of the signal, not of its half spectrum); real (False): real
            to complex, or complex to real with inverse.
    """
    x, y = inputs[0], outputs[0]
    lengths = attrs["n"] if isinstance(attrs["n"], tuple) else (attrs["n"],)
    size = math.prod(lengths)
    real = bool(attrs.get("real"))
    full = x if real and not attrs.get("inverse") else y  # a half spectrum has fewer elements
    transforms = full.elements / size if size else 0
    stages = math.log2(size) if size > 1 else 0.0
    count = 5 * size * stages * transforms / (2 if real else 1)
    wide = max(item_bytes(x), item_bytes(y))
    passes = max(1, math.ceil(stages))
    moved = passes * transforms * size * wide / (2 if real else 1)
    return cost_of(
        scalar_flop(real_name(y.dtype), count),
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=max(moved, x.nbytes),
        stored=max(moved, y.nbytes),
        access="strided",
        note="5·N·log₂ N (half for real), whatever N; one crossing of memory",
    )
