"""Where the memory levels are: plateaus of the bandwidth and latency sweeps, joined and named."""
