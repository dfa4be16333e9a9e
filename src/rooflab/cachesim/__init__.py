"""An exact cache simulator: levels, policies and streams of addresses compiled to machine code."""
