"""Front ends: programs of PyTorch, JAX, ONNX, tinygrad and NumPy captured as graphs of work."""
