"""Files that say what hardware or a tool counted of kernels, regions, loops or runs: read into `Counters`."""

# Asked in this order; each module has `SOURCE`, `sniff` and `load`.
FORMATS = (
    "nsight_compute",
    "likwid_perfctr",
    "perf_stat",
    "intel_pcm",
    "tinygrad",
    "intel_advisor",
    "proton",
    "points",
    "rocprof",
    "rocprofv3_counters",
    "carm_applications",
)
