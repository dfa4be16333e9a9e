"""What a compiler makes of a program: operations rewritten, grouped and fused into kernels."""
