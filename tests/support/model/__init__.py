"""What tests of the model share."""
