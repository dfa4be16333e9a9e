"""How it is timed: pinned threads over memory of their own, fair trials, what else ran meanwhile."""
