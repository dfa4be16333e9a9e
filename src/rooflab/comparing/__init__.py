"""Results held against each other: sides read, operations matched, differences attributed, conditions judged."""
