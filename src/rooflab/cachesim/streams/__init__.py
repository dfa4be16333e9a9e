"""Streams of accesses, plainly named, such as `rooflab.streams.matmul(256)` and `.sequential(2**26)`."""

from rooflab.cachesim.streams.dense import (
    attention,
    copy,
    matmul,
    pointer_chase,
    random,
    sequential,
    stencil2d,
    stencil3d,
    strided,
    transpose,
    triad,
)
from rooflab.cachesim.streams.recorded import recorded
from rooflab.cachesim.streams.sparse import pagerank, spmv, spmv_csr

__all__ = [
    "attention",
    "copy",
    "matmul",
    "pagerank",
    "pointer_chase",
    "random",
    "recorded",
    "sequential",
    "spmv",
    "spmv_csr",
    "stencil2d",
    "stencil3d",
    "strided",
    "transpose",
    "triad",
]
