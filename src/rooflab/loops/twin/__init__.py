"""The instrumented twin of a loop: written, compiled, run beside the cache simulator."""
