"""What would explain a measured time that its prediction does not hold: each suspect predicted."""
