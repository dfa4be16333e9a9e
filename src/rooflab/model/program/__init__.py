"""A whole program on a machine: its rows, the host that feeds them, error bars, warnings."""
