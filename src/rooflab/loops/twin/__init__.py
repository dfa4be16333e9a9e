"""What the runs of a twin leave: counts by access, line and loop, results, generated files."""
