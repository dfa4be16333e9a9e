"""One level of caches and one hierarchy of them: what an access does."""
