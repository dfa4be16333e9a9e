"""Products of matrices timed in the installed libraries: shapes that fill the space of sizes."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from rooflab.timing import time_call

# The first letters of the settings that decide what a library does.
_PREFIXES = ("OPENBLAS_", "GOTO_", "OMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "BLIS_", "VECLIB_")
_NO_SETTINGS = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK")  # numba and others set these
_OTHERS = {"torch", "scipy", "scipy.libs"}
DTYPES = {"fp32": 4, "fp64": 8}
# The most that one product of the design computes and touches: some milliseconds on one core.
_MOST_MULTIPLY_ADDS = 2**26
_MOST_ELEMENTS = 3 * 2**20
_LARGEST, _SMALLEST = 3000, 2
_LARGEST_OF_BATCH, _MOST_OF_BATCH = 384, 128
_VECTOR = (16, 4096)
# Large and square: what a library attains where nothing but its innermost loop counts; by when each is drawn. Late
# enough that a short time is not spent on them alone.
_ANCHORS = {24: (1, 512, 512, 512), 64: (1, 768, 768, 768)}
# So many shapes are timed though the time is over, unless it is over this many times: fewer leave terms open.
_LEAST_SHAPES, _PATIENCE = 32, 2
# What is drawn in turns: of four products one has a batch, and two are with a vector.
_TURNS = ("product", "batch", "product", "columns", "product", "batch", "product", "rows")
_MANY_THREADS = 8
_ROUNDS, _RUN_S = 2, 0.0003
# Additive recurrence of the plastic number's like in four dimensions: points that leave no gap (Roberts, 2018,
# "The unreasonable effectiveness of quasirandom sequences"); the root of x^5 = x + 1.
_STEPS = tuple(1.1673039782614187**-power for power in (1, 2, 3, 4))


class TimedProduct(NamedTuple):
    """Best seconds of one call: `batch` products of m × k by k × n."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    threads: int
    seconds: float


@dataclass(frozen=True)
class TimedLibrary:
    """What was timed of one library.

    Attributes:
        name: "numpy" or "torch"; `version` its own.
        blas, kernels: the library that computes, and what kernels it chose; None where it does not say.
        dispatch_s: seconds of calls that compute nothing, one of each round.
        environment: settings of the process that decide what it does.
        refused: why nothing was timed; None where something was.
    """

    name: str
    version: str
    blas: str | None = None
    kernels: str | None = None
    timed: tuple[TimedProduct, ...] = ()
    dispatch_s: tuple[float, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    refused: str | None = None


class Library(Protocol):
    """A library that multiplies matrices."""

    def threads(self) -> int:
        """How many threads it takes by itself."""
        ...

    def set_threads(self, count: int) -> None:
        """Give it so many threads."""
        ...

    def array(self, values: np.ndarray) -> Any:
        """Its own array over the memory of `values`."""
        ...

    def multiply(self, a: Any, b: Any) -> Any:
        """The product, in a new array."""
        ...


class NumpyLibrary:
    """NumPy's products by the BLAS that it has loaded, its threads set through threadpoolctl."""

    def __init__(self) -> None:
        import threadpoolctl

        pools = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
        # SciPy and PyTorch bring libraries of their own; one that belongs to nobody is NumPy's too.
        own = [pool for pool in pools if "numpy" in pool.filepath]
        self._pools = own or [pool for pool in pools if not _OTHERS & set(Path(pool.filepath).parts)]

    def threads(self) -> int:
        """How many threads NumPy's BLAS takes; 1 where no library says so."""
        return max((pool.get_num_threads() or 1 for pool in self._pools), default=1)

    def set_threads(self, count: int) -> None:
        """Give NumPy's BLAS so many threads."""
        for pool in self._pools:
            pool.set_num_threads(count)

    def array(self, values: np.ndarray) -> np.ndarray:
        """`values` itself."""
        return values

    def multiply(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """`np.matmul`."""
        return np.matmul(a, b)

    @property
    def blas(self) -> str | None:
        """Such as "OpenBLAS 0.3.31"."""
        for pool in self._pools:
            name = {"openblas": "OpenBLAS", "mkl": "MKL", "blis": "BLIS"}.get(pool.internal_api, pool.internal_api)
            return f"{name} {pool.version}" if pool.version else name
        return None

    @property
    def kernels(self) -> str | None:
        """The processor whose kernels it took: "Haswell"."""
        return next((getattr(pool, "architecture", None) for pool in self._pools), None)


def settings() -> dict[str, str]:
    """The settings of this process that decide what a library of linear algebra does."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_PREFIXES) and name not in _NO_SETTINGS
    }


def design() -> Iterator[tuple[int, int, int, int]]:
    """(batch, m, n, k), one after the other, for ever: points that fill the logarithms, and some large squares."""
    for number in itertools.count(1):
        if number in _ANCHORS:
            yield _ANCHORS[number]
        u = [(0.5 + number * step) % 1.0 for step in _STEPS]
        kind = _TURNS[number % len(_TURNS)]
        aligned = 8 if number // len(_TURNS) % 2 else 1  # every other round: sizes as programs often have them
        if kind in ("rows", "columns"):
            long, wide = (_between(part, *_VECTOR, aligned) for part in u[:2])
            shape = (1, 1, long, wide) if kind == "rows" else (1, long, 1, wide)
        elif kind == "batch":
            m, n, k = (_between(part, 4, _LARGEST_OF_BATCH, aligned) for part in u[:3])
            shape = (_between(u[3], 2, _MOST_OF_BATCH), m, n, k)
        else:
            m, n, k = (_between(part, _SMALLEST, _LARGEST, aligned) for part in u[:3])
            shape = (1, m, n, k)
        if fits(shape):
            yield shape


def _between(share: float, low: int, high: int, aligned: int = 1) -> int:
    size = round(low * (high / low) ** share)
    return max(aligned, size // aligned * aligned) if size > aligned else size


def fits(shape: tuple[int, int, int, int]) -> bool:
    """Whether a product is small enough to be timed many times."""
    batch, m, n, k = shape
    elements = batch * (m * k + k * n + m * n)
    return batch * m * n * k <= _MOST_MULTIPLY_ADDS and elements <= _MOST_ELEMENTS


def numpy_timed(
    budget_s: float,
    most_threads: int,
    tick: Callable[[], None] = lambda: None,
    before: Sequence[TimedProduct] = (),
) -> TimedLibrary:
    """NumPy's products, by one thread and by as many as its library takes, `most_threads` at most.

    Args:
        before: what was timed a while ago: the same is timed again, and the faster one counts.
    """
    library = NumpyLibrary()
    counts = thread_counts(min(library.threads(), most_threads))
    again = iter(dict.fromkeys(each[:4] for each in before)) if before else None
    timed = faster_of(before, collect(library, counts, budget_s, again, tick))
    return TimedLibrary(
        "numpy", np.__version__, library.blas, library.kernels, tuple(timed), environment=settings()
    )


def thread_counts(most: int) -> tuple[int, ...]:
    """One thread, all, and from 8 on the middle between them, where teams behave otherwise than either."""
    return tuple(sorted({1, most, *([round(most**0.5)] if most >= _MANY_THREADS else [])}))


def faster_of(first: Sequence[TimedProduct], second: Sequence[TimedProduct]) -> list[TimedProduct]:
    """Of each product the shorter of two times: other work comes and goes within seconds, and never helps."""
    best: dict[tuple[Any, ...], TimedProduct] = {}
    for each in (*first, *second):
        known = best.setdefault(each[:-1], each)
        if each.seconds < known.seconds:
            best[each[:-1]] = each
    return list(best.values())


def collect(
    library: Library,
    counts: Sequence[int],
    budget_s: float,
    shapes: Iterator[tuple[int, int, int, int]] | None = None,
    tick: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[TimedProduct]:
    """Products of the design timed until `budget_s` is over, in both formats, by each of `counts` threads.

    All that belongs to one shape is timed in turn, so that what else runs meanwhile meets all alike. The library
    has its own number of threads back afterwards.

    Args:
        shapes: (batch, m, n, k) to time; the design if None.
        tick: called between two products; may raise.
    """
    rng = np.random.default_rng(0)
    pools = {"fp32": rng.random(_MOST_ELEMENTS, dtype=np.float32), "fp64": rng.random(_MOST_ELEMENTS)}
    own, timed, start = library.threads(), [], clock()
    try:
        for done, shape in enumerate(shapes or design(), start=1):
            for dtype in DTYPES:
                a, b = _operands(library, pools[dtype], shape)
                for count in counts:
                    library.set_threads(count)
                    taken = time_call(lambda a=a, b=b: library.multiply(a, b), rounds=_ROUNDS, run_s=_RUN_S)
                    timed.append(TimedProduct(*shape, dtype, count, taken.best_s))
                    tick()
            spent = clock() - start
            if spent > budget_s and (done >= _LEAST_SHAPES or spent > _PATIENCE * budget_s):
                break
    finally:
        library.set_threads(own)
    return timed


def _operands(library: Library, values: np.ndarray, shape: tuple[int, int, int, int]) -> tuple[Any, Any]:
    """Both operands, contiguous, one behind the other in `values`."""
    batch, m, n, k = shape
    left, right = batch * m * k, batch * k * n
    a = values[:left].reshape((batch, m, k) if batch > 1 else (m, k))
    b = values[left : left + right].reshape((batch, k, n) if batch > 1 else (k, n))
    return library.array(a), library.array(b)
