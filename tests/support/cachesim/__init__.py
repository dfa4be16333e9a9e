"""Oracles of the cache simulator: plain Python that counts what the compiled code must count."""
