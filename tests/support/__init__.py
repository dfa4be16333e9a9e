"""What tests share: oracles, small programs to test with, and ways to call the command line."""
