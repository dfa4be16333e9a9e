"""Files that say what a machine attained: outputs of other tools' benchmarks, read into a `Machine`."""

# Asked in this order; each module has `SOURCE`, `sniff` and `load`.
FORMATS = (
    "babelstream",
    "carm",
    "carm_lines",
    "ert",
    "likwid_bench",
    "mixbench",
    "nccl_tests",
    "nvbandwidth",
    "stream",
    "rocprof_compute_roofline",
    "intel_advisor_roofs",
)
