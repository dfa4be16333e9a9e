"""Address traces in files: recognised, parsed, simulated."""
