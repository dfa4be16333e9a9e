"""A loop on a machine: its time at each level, and which tile sizes to take."""
