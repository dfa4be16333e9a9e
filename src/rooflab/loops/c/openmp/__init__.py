"""OpenMP in C: a team simulated in turn, a runtime found and its threads kept on CPUs, one thread's answers."""
