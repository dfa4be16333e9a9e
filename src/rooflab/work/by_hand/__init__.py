"""One operation written by hand, from the shapes of its operands: `rooflab op matmul 4096x4096 4096x4096`."""

from rooflab.work.by_hand.build import Shape, graph, kinds, operands, settings, shape, title

__all__ = ["Shape", "graph", "kinds", "operands", "settings", "shape", "title"]
