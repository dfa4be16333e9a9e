"""What would help a loop: each change made to its source, its arrays or its compilation, and simulated again."""
