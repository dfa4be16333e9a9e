"""The loop as the compiler left it: its LLVM IR, remarks on vectorisation, its measured time; its code, kept."""
