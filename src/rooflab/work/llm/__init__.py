"""Language models as architectures and graphs, from their configuration alone: no weights, no framework."""
