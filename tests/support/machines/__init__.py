"""What the tests of machines and of their measurement share."""
