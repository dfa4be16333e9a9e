"""A family's constants refitted to times that a user measured."""
