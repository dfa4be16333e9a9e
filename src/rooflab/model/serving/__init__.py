"""A model served: how long an engine's step takes, what fits, streams of requests event by event, plans."""
