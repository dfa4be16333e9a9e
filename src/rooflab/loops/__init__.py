"""Python loop nests over NumPy arrays: counted and simulated exactly, compiled, timed, explained."""
