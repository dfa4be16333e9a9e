"""What is timed: rows of microbenchmarks, from an expression to vector code compiled in process."""
