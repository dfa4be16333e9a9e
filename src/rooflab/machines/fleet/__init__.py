"""Measuring many machines: who the nodes are, and `rooflab measure` run once on each, in a process of its own."""
