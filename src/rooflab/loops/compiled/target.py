"""LLVM's description of the processor that this runs on."""

from __future__ import annotations

from typing import Any

from llvmlite import binding


def target_machine(speed_level: int = 3) -> Any:
    """LLVM's description of this machine, as numba takes it; `speed_level`: how much its code generator does.

    3 is numba's own; with 0 code is made several times as fast, and runs slower.
    """
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()  # without it LLVM ends the process at assembly in the user's code
    features = binding.get_host_cpu_features().flatten()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=speed_level, jit=True
    )
