"""A captured PyTorch program run again here, operation by operation and as a whole, by a clock."""
