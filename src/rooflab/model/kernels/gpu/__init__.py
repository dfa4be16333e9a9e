"""How long kernels take on GPUs: a file for each mechanism, and what several of them share."""
