"""What tests of observing share."""
