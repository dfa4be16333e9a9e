"""What would help: rules that each name a change, which is then predicted again."""

WORTH = 0.02  # share of the time below which a change is not worth a word
PAGE = "remedies.html#"  # where the docs have a section for each rule
