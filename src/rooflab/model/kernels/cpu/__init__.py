"""How long kernels take on the cores of a CPU: products of matrices, and everything else."""
