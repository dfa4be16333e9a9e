"""How long a serving engine's step takes, from its batch, and what memory it needs."""
