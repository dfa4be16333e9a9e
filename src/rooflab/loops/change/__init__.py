"""A loop changed: loops exchanged, tiled or fused, arrays laid out otherwise, another number format."""
