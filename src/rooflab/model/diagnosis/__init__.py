"""What is wrong with a profile's numbers, and where its time goes: rules, each with its evidence."""
