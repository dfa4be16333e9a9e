"""What did limit the run? Files of profilers read, their events matched to operations, the run's time explained."""
