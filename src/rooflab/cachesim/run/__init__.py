"""Running streams through a hierarchy: loop nests fast-forwarded, irregular ones, within a time limit."""
