"""What would help a run that was profiled: measured times with a waste taken out, through the roofs again."""
