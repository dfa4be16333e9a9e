"""A kernel's name as people read it: without return type, namespaces and arguments, with what it applies."""

from __future__ import annotations

import re

_RETURNS = re.compile(r"^(?:(?:static|__global__|void)\s+)+")
_INSIDE = re.compile(r"\(anonymous namespace\)::|<unnamed>::|^unnamed>::")
# What a kernel template applies: functors and kernels of PyTorch, kernels of CUTLASS.
_APPLIED = re.compile(
    r"(\w*(?:[Ff]unctor|_kernel|_kernel_cuda|_cuda_kernel|_kernel_impl|KernelImpl|Ops?|cutlass_\w*op_|cutlass_\d+_)\w*)"
)
_NOISE = re.compile(
    r"gpu_kernel_impl\w*|gpu_index_kernel|[BA]?(Unary|inary)Functor|ReduceOp|OpaqueType|TensorIterator\w*"
)
_LENGTH = 60


def short_name(name: str, length: int = _LENGTH) -> str:
    """The kernel's own identifier, and in brackets what it applies, from its template arguments.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)")
    'vectorized_elementwise_kernel[CUDAFunctor_add]'
    >>> short_name("Memcpy HtoD (Pinned -> Device)")
    'Memcpy HtoD (Pinned -> Device)'
    >>> short_name("saxpy(float, const float *)")
    'saxpy'
    """
    whole = _INSIDE.sub("", name.strip())
    typed = _RETURNS.match(whole)
    whole = whole[typed.end() :] if typed else whole
    own, opening, inside = whole.partition("<")
    # A signature's bracket follows at once; in "Memcpy HtoD (Pinned -> Device)" it belongs to the words.
    own = re.split(r"(?<=\w)\(", own)[0]
    own = own.rpartition("::")[2] or own
    applied = _APPLIED.search(_NOISE.sub("", inside.partition(">(")[0])) if opening and own else None
    text = f"{own}[{applied[1]}]" if applied and applied[1] != own else own or whole
    return text if len(text) <= length else f"{text[: length - 1]}…"
