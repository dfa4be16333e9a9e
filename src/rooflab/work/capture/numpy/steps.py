"""Functions of NumPy whose Python works on plain arrays, as the steps that it takes: these are noted instead.

Each takes the arguments for which its steps hold, and follows the file of NumPy 2 that is named beside it. The
steps are for what is counted alone: the numbers that the program goes on with are NumPy's own
(`Recorder.function`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Any:
    """numpy/lib/_function_base_impl.py: centre a copy, multiply it by its transpose, divide."""
    x = np.copy(_of_rows(m, rowvar))
    if y is not None:
        x = np.concatenate((x, _of_rows(y, rowvar)))
    x -= np.mean(x, axis=1)[:, None]
    product = np.dot(x, (np.conjugate(x) if np.iscomplexobj(x) else x).T)
    product *= 1.0 / max(x.shape[1] - (int(not bias) if ddof is None else ddof), 1)
    return np.squeeze(product)


def _of_rows(m: Any, rowvar: bool) -> Any:
    """Variables by observations."""
    return np.atleast_2d(m) if rowvar or np.ndim(m) < 2 else m.T


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """numpy/lib/_function_base_impl.py: the covariance, divided by the deviations twice, clipped."""
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    deviation = np.sqrt(np.real(np.diag(c)))
    c /= deviation[:, None]
    c /= deviation[None, :]
    return np.clip(c, -1, 1, out=c)


def cross(a: Any, b: Any) -> Any:
    """numpy/_core/numeric.py: of three components, along the last axis, two products and a difference each."""
    if a.shape != b.shape or a.shape[-1:] != (3,):
        return None
    out = np.empty(a.shape, np.result_type(a, b))
    for at in range(3):
        one, other = (at + 1) % 3, (at + 2) % 3
        np.multiply(a[..., one], b[..., other], out=out[..., at])
        out[..., at] -= np.multiply(a[..., other], b[..., one])
    return out


def vander(x: Any, N: int | None = None) -> Any:
    """numpy/lib/_twodim_base_impl.py: a column of ones, x in all others, products along the rows."""
    columns = len(x) if N is None else N
    found = np.empty((len(x), columns), np.promote_types(x.dtype, int))
    rising = found[:, ::-1]
    rising[:, :1] = 1
    if columns > 1:
        rising[:, 1:] = x[:, None]
        np.multiply.accumulate(rising[:, 1:], out=rising[:, 1:], axis=1)
    return found


def polyfit(x: Any, y: Any, deg: int) -> Any:
    """numpy/lib/_polynomial_impl.py: powers of x, each column divided by its norm, least squares."""
    left = vander(x + 0.0, deg + 1)
    norms = np.sqrt((left * left).sum(axis=0))
    left /= norms
    found = np.linalg.lstsq(left, y + 0.0, rcond=None)[0]
    return (found.T / norms).T


def polymul(a1: Any, a2: Any) -> Any:
    """numpy/lib/_polynomial_impl.py: every coefficient by every other."""
    return np.convolve(a1, a2)


def polyder(p: Any) -> Any:
    """numpy/lib/_polynomial_impl.py: each coefficient times its power."""
    return p[:-1] * np.arange(len(p) - 1, 0, -1)


def unwrap(p: Any) -> Any:
    """numpy/lib/_function_base_impl.py: differences into one turn, what that changes summed up, added."""
    apart = np.diff(p)
    turned = np.mod(apart + np.pi, 2 * np.pi) - np.pi
    np.copyto(turned, np.pi, where=(turned == -np.pi) & (apart > 0))
    changed = turned - apart
    np.copyto(changed, 0, where=np.abs(apart) < np.pi)
    up = np.copy(p)
    up[..., 1:] = p[..., 1:] + np.cumsum(changed, axis=-1)
    return up


def hfft(a: Any, n: int | None = None) -> Any:
    """numpy/fft/_pocketfft.py: the transform back of the conjugate, which scales as it stores."""
    return np.fft.irfft(np.conjugate(a), (a.shape[-1] - 1) * 2 if n is None else n)


def ihfft(a: Any, n: int | None = None) -> Any:
    """numpy/fft/_pocketfft.py: the conjugate, in place, of the real transform, which scales as it stores."""
    found = np.fft.rfft(a, n)
    return np.conjugate(found, out=found)


STEPS: dict[str, Callable[..., Any]] = {
    "numpy.cov": cov,
    "numpy.corrcoef": corrcoef,
    "numpy.cross": cross,
    "numpy.linalg.cross": cross,
    "numpy.vander": vander,
    "numpy.polyfit": polyfit,
    "numpy.polymul": polymul,
    "numpy.polyder": polyder,
    "numpy.unwrap": unwrap,
    "numpy.fft.hfft": hfft,
    "numpy.fft.ihfft": ihfft,
}
