"""Front ends: programs of PyTorch, JAX, ONNX and tinygrad captured as graphs of work."""
