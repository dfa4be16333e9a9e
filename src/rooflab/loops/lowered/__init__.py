"""A function as numba lowers it: its LLVM IR, with every access in it counted beside the cache simulator."""
