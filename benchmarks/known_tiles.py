"""What is fitted of attention kernels whose tiles and parts the libraries' own code tells (`attention_tiles`).

Their fixed times are clocks of the card, so that they hold on another; what both sorts of table tell together is
not fitted to one: the costs of a block, which prompts show, and the rate of the last cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TOPICS = tuple(
    f"attention_{name}_{sort}"
    for name in ("fa2", "flashinfer", "vllm_flashinfer", "triton")
    for sort in ("prompts", "decode")
)
PROMPTS = (
    *("matrix_factor", "exp_factor", "shared_factor", "block_clocks", "serving_tile_clocks", "edge_clocks"),
    "launch_clocks",
)
DECODE = ("serving_tile_clocks", "launch_clocks", "paged_share", "join_clocks", "part_clocks")
STARTS = {
    "matrix_factor": 1.2, "exp_factor": 1.0, "shared_factor": 0.4, "block_clocks": 300.0, "edge_clocks": 500.0,
    "launch_clocks": 4000.0, "turn_clocks": 4000.0, "join_clocks": 3000.0, "part_clocks": 200.0,
    "serving_tile_clocks": 3000.0, "paged_share": 0.83,
}  # fmt: skip
FIXED = {
    "launch_s": [0.0], "join_s": [0.0], "row_factor": [1.0], "hidden_share": [0.5], "widen_factor": [1.0],
    "cache_share": [0.45],
}  # fmt: skip
BLOCK = {"matrix_factor": [1.25], "exp_factor": [1.0], "shared_factor": [0.4], "block_clocks": [300.0]}

# Triton's: what windows and idle thread blocks cost beside the rest.
TRITON = {
    "ctx": (
        *("matrix_factor", "exp_factor", "block_clocks", "skip_clocks", "window_factor", "serving_tile_clocks"),
        "launch_clocks",
    ),
    "gen": (
        *("shared_factor", "block_clocks", "serving_tile_clocks", "idle_clocks", "hidden_share", "paged_share"),
        *("launch_clocks", "join_clocks"),
    ),
}
TRITON_STARTS = {
    "matrix_factor": 1.2, "exp_factor": 2.0, "block_clocks": 1000.0, "skip_clocks": 1000.0, "window_factor": 1.5,
    "serving_tile_clocks": 3000.0, "launch_clocks": 3000.0, "join_clocks": 2000.0, "shared_factor": 4.0,
    "idle_clocks": 200.0, "hidden_share": 0.7, "paged_share": 0.83,
}  # fmt: skip
TRITON_FIXED = {
    "ctx": {"packs_single": [0.0], "edge_clocks": [0.0], "hidden_share": [0.4]},
    "gen": {"matrix_factor": [1.25], "exp_factor": [1.0], "part_clocks": [0.0], "resident": [4.0]},
}


def start(kernel: str, name: str) -> float:
    """From where a constant of a kernel of `TOPICS` is fitted."""
    return (TRITON_STARTS if kernel.startswith("triton") else STARTS)[name]


def asked(sort: str, kernel: str) -> tuple[str, Sequence[str], dict[str, Any]]:
    """Topic, what is fitted to tables of `sort`, and what is fixed, of a kernel of `TOPICS`."""
    if kernel.startswith("triton"):
        return "attention", TRITON[sort], FIXED | TRITON_FIXED[sort]
    prompts = sort == "ctx"
    turned = ["turn_clocks"] if kernel.startswith("fa2") else []
    joined = ["join_clocks"] if prompts and "flashinfer" in kernel else []
    fixed = {} if prompts else BLOCK
    return "attention", [*(PROMPTS if prompts else DECODE), *joined, *turned], FIXED | fixed
