"""How the simulator's compiled code is built: its cache on disk, its words in memory."""
