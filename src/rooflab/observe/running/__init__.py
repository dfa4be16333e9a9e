"""A command run and watched: what the system says of it, its CPU's events, profilers set on it from outside."""
