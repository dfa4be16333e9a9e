"""What follows from the source alone: formulas of FLOP and bytes, layer conditions, dependences."""
