"""Measuring this machine: kernel rows → LLVM IR → timed on pinned threads → plateaus → a Machine."""
