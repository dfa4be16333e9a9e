"""JAX functions as graphs of work: traced to a jaxpr, nothing computed."""

from __future__ import annotations

from rooflab.work.capture.jax.trace import capture

__all__ = ["capture"]
