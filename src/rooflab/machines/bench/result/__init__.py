"""What becomes of the findings: levels, peaks, self-checks, a Machine."""
