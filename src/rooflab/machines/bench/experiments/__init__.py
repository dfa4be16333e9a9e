"""What is found out: bandwidth, latency, peaks, NUMA, disk, call overhead, known kernels."""
