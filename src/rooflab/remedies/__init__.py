"""What would help: rules that each name a change, which is then predicted again."""

WORTH = 0.02  # share of the time below which a change is not worth a word
# Where the docs have a section for each rule; what it says is in the package, too (`explained`).
PAGE = "https://github.com/rooflab/rooflab/blob/main/docs/remedies.md#"
