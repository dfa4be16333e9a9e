"""What ggml's products take of a CPU's cores: clocks or instructions for 32 weights and a row, by format.

x86: measured on a Zen 4 at 3.69 GHz, alone, one thread, least of many: ggml_mul_mat of llama.cpp build 11549
(October 2026, built for AVX2), 2048 columns of 4096 weights, of one row and of 64; Q4_0, IQ4_NL and Q4_K laid out
anew (ggml-cpu/repack.cpp). Arm: vector instructions of 16 bytes counted in ggml-cpu/arch/arm/quants.c and
repack.cpp, all but loads; of formats that look weights up in tables, Q4_K's times what they take of it on x86.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model.serving.batch import Number
from rooflab.work.llm.formats import WeightFormat


class Cores(NamedTuple):
    """Of 32 weights and a row: clocks of a Zen 4 and instructions of Arm, for a row alone and for many of them."""

    clocks: float
    clocks_of_many: float
    arm: float
    arm_of_many: float


_OF_FORMAT = {
    "q4_0": Cores(3.85, 2.69, 6.8, 3.3),
    "q4_1": Cores(5.29, 5.29, 11.0, 11.0),
    "q5_0": Cores(6.72, 4.36, 13.0, 3.5),
    "q5_1": Cores(6.85, 6.85, 13.0, 13.0),
    "q8_0": Cores(4.68, 3.24, 7.0, 3.0),
    "q2_k": Cores(3.43, 2.12, 11.5, 3.2),
    "q3_k": Cores(4.72, 2.42, 18.0, 4.0),
    "q4_k": Cores(3.21, 2.16, 8.0, 3.0),
    "q5_k": Cores(5.39, 2.12, 12.0, 3.5),
    "q6_k": Cores(4.36, 2.65, 16.0, 3.8),
    "iq4_nl": Cores(3.86, 2.70, 6.8, 3.8),
    "iq4_xs": Cores(5.30, 2.44, 9.0, 3.3),
    "iq3_xxs": Cores(11.3, 2.61, 23.0, 5.0),
    "iq3_s": Cores(13.8, 2.49, 28.0, 5.5),
    "iq2_xxs": Cores(8.22, 2.65, 17.0, 4.5),
    "iq2_xs": Cores(8.71, 2.48, 18.0, 4.5),
    "iq2": Cores(7.87, 2.63, 16.0, 4.5),
    "iq1": Cores(7.87, 7.87, 16.0, 16.0),
    "mxfp4": Cores(5.79, 5.79, 11.0, 11.0),
}
_HALVES = Cores(4.71, 5.70, 10.7, 5.0)
# Rows that share a block's unpacking; formats whose products widen a block once for several rows even where an
# engine does not for all (llama.cpp before 2026: its small matrix library on x86, what is laid out anew).
_MANY, _ALWAYS, _ALWAYS_ARM = 8.0, ("f16", "fp16", "bf16", "q4_0", "q5_0", "q8_0", "iq4_nl"), ("q4_0", "iq4_nl")


def taken(
    rows: Number, n: float, k: float, stored: WeightFormat, active: Number, widens_once: bool
) -> dict[str, Number]:
    """Clocks and instructions of a product of so many rows with one of `active` matrices each."""
    name = stored.name
    cost = next((each for start, each in _OF_FORMAT.items() if name.startswith(start)), _HALVES)
    rows = np.asarray(rows, float)
    each = np.clip(rows / np.maximum(active, 1.0), 1.0, _MANY)
    blocks = rows * n * k / 32.0

    def of(one: float, many: float, once: bool) -> Number:
        return blocks * (many + (one - many) / each if once else one)

    return {
        "core_clocks": of(cost.clocks, cost.clocks_of_many, widens_once or name.startswith(_ALWAYS)),
        "arm_instructions": of(cost.arm, cost.arm_of_many, widens_once or name.startswith(_ALWAYS_ARM)),
    }
