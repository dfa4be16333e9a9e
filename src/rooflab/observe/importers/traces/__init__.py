"""Files that say when each kernel or operation ran: one file a format, read into a `Trace`."""

# Asked in this order; each module has `SOURCE`, `sniff` and `load`.
FORMATS = (
    "kineto",
    "sqlite_exports",
    "nsight_systems_reports",
    "rocprofv3_csv",
    "rocprofv3_json",
    "onnxruntime",
    "xla_trace",
    "xla_xplane",
)
