"""A machine as the models see it: its numbers over settings, its family's constants, its caches."""
