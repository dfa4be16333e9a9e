"""From work and a machine to time: rooflines, kernels, compilers, hosts, programs, loops, transfers."""
