"""Rooflines: classic, hierarchical, cache-aware and of instructions."""
