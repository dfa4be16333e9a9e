"""What would help: rules that each name a change, which is then predicted again."""
