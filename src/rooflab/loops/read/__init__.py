"""A loop as its source has it: syntax, arguments, types of values, patterns of access."""
