"""Files that say what a machine attained: outputs of other tools' benchmarks, read into a `Machine`."""

# Asked in this order; each module has `SOURCE`, `sniff` and `load`.
FORMATS: tuple[str, ...] = ("rocprof_compute_roofline",)
