"""How a model is laid out over devices: one rank's share, its collectives, what fits into memory."""
