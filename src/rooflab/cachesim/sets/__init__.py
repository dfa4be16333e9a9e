"""The sets of a cache: where an address lies, how lines are found and replaced, their state in memory."""
