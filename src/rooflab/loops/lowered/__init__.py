"""A function as numba lowers it: its LLVM IR read, counted beside the cache simulator, its innermost loops laid open."""
