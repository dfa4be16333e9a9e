"""Where the memory levels are: plateaus of the sweeps, named."""
