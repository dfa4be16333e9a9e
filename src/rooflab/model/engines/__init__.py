"""What serving engines run: the kernels that a layer becomes, host time of a step, kind of all-reduce."""
