"""Machines: the catalogue, their caches and ladders, detection of this one, and its measurement."""
