"""C and C++ functions: compiled to LLVM IR by clang, each access checked and counted, their own build timed."""
