"""Compiling kernels in process with llvmlite: no compiler on the machine, nothing on disk."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from rooflab.machines.bench.kernels.emit import vector_length_kernel
from rooflab.machines.bench.kernels.ir import RESULT_OFFSET_BYTES, Emitted, Target, module_text

_PROTOTYPE = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,  # a
    ctypes.c_void_p,  # b
    ctypes.c_void_p,  # c
    ctypes.c_int64,  # n, bytes
    ctypes.c_int64,  # total, iterations
    ctypes.c_int64,  # w
    ctypes.c_void_p,  # barrier
    ctypes.c_int64,  # threads
    ctypes.c_void_p,  # out
    ctypes.c_double,  # s
    ctypes.c_double,  # t
)


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: calling `function` releases the GIL. `emitted` tells what an iteration does."""

    emitted: Emitted
    function: Any
    engine: Any  # keeps the code alive


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def host_target() -> Target:
    """The platform this process runs on."""
    return Target(platform.machine(), 8 if platform.system() == "Darwin" else 1)


@cache
def host_features() -> frozenset[str]:
    """LLVM's names of the features this host has."""
    _initialize()
    return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)


def host_sve_bits() -> int | None:
    """The length of the host's SVE registers, asked of a register; None where there are none."""
    if "sve" not in host_features():
        return None
    kernel = compile_kernels([vector_length_kernel()])["vector_length"]
    out, barrier = (ctypes.c_int64 * 16)(), ctypes.c_int64(0)
    pointers = [ctypes.addressof(out)] * 3
    kernel.function(*pointers, 0, 1, 0, ctypes.addressof(barrier), 1, ctypes.addressof(out), 0.0, 0.0)
    return int(out[RESULT_OFFSET_BYTES // 8]) * 8


def parses(kernel: Emitted, target: Target) -> bool:
    """Whether this LLVM accepts `kernel`: the types of some intrinsics differ between its versions."""
    _initialize()
    try:
        llvm.parse_assembly(module_text([kernel], target)).verify()
    except RuntimeError:
        return False
    return True


def compile_kernels(kernels: Mapping[str, Emitted] | Iterable[Emitted]) -> dict[str, Kernel]:
    """The kernels compiled for this host, by their symbols."""
    _initialize()
    listed = list(kernels.values() if isinstance(kernels, Mapping) else kernels)
    module = llvm.parse_assembly(module_text(listed, host_target()))
    module.verify()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return {
        kernel.symbol: Kernel(kernel, _PROTOTYPE(engine.get_function_address(kernel.symbol)), engine)
        for kernel in listed
    }


def assembly(kernels: Iterable[Emitted], triple: str, cpu: str, features: str, target: Target) -> str:
    """The machine code of `kernels` as text, for any processor that this LLVM can write code for."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(module_text(kernels, target))
    module.verify()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=3)
    return machine.emit_assembly(module)
