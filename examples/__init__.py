"""Runnable examples; a package so that `python -m examples.NAME` finds these and no other `examples`."""
