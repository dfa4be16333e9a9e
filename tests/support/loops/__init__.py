"""What the tests of loops share: loops to take apart, and a plain Python oracle of their accesses."""
