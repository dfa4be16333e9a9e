"""What would help accesses that were simulated: each change made to the stream, and simulated again."""
