"""What did limit the run? Profilers' files read, their events matched to operations, time explained."""
