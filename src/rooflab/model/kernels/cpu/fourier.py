"""Fourier transforms on a CPU: what lengths with large prime factors add, and what one long transform takes.

A library transforms a length by its prime factors, and each costs as much as the factor (pocketfft,
`cost_guess`). Where that is dearer, it convolves with a chirp instead: three transforms of a length that is at
least twice as long and smooth (Bluestein, IEEE Trans. Audio Electroacoust. 18, 1970).
"""

from __future__ import annotations

import math

from rooflab.types.work import Op

# PyTorch's, by MKL: clocks of one FLOP of many transforms at once, of one by itself, of one of real numbers.
_MANY, _ALONE, _REAL = 0.15, 0.3, 0.8


def beyond_formula(op: Op) -> float:
    """How many times the FLOP of its formula, 5·N·log₂ N, a transform takes: 1 for smooth lengths."""
    lengths = _lengths(op)
    stages = sum(math.log2(n) for n in lengths if n > 1)
    return sum(_ratio(n) * math.log2(n) for n in lengths if n > 1) / stages if stages else 1.0


def torch_clocks(op: Op, elements: int) -> float:
    """Clocks of one FLOP of a transform of PyTorch's, of `elements` in all."""
    lengths = _lengths(op)
    if len(lengths) > 1 or elements > 2 * math.prod(lengths):
        return _MANY
    return _REAL if op.attrs.get("real") else _ALONE


def _lengths(op: Op) -> tuple[int, ...]:
    lengths = op.attrs["n"]
    return tuple(lengths) if isinstance(lengths, tuple | list) else (int(lengths),)


def _ratio(n: int) -> float:
    """The cheaper of the two ways for one length, in those of a power of two of that length."""
    direct = sum(_primes(n)) / (2 * math.log2(n))
    longer = 2.0 ** math.ceil(math.log2(2 * n - 1))
    chirp = 3 * longer * math.log2(longer) / (n * math.log2(n))
    return max(1.0, min(direct, chirp))


def _primes(n: int) -> list[int]:
    """Prime factors of `n`, ascending."""
    found, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return [*found, n] if n > 1 else found
