"""What ggml's products take of a CPU's cores: clocks or instructions for 32 weights and a row, by format.

x86: measured on a Zen 4 at 3.69 GHz, alone, one thread, least of many: ggml_mul_mat of llama.cpp build 0c1e570
(ggml 0.25.3, late 2026), 2048 columns of 4096 weights, of one row and of 256, built for AVX2 and for the processor
itself (AVX-512 with its products of 8-bit numbers); Q4_0, IQ4_NL, Q4_K and, with AVX-512, Q2_K laid out anew
(ggml-cpu/repack.cpp). Arm: vector instructions of 16 bytes counted in ggml-cpu/arch/arm/quants.c and repack.cpp,
all but loads; of formats that look weights up in tables, Q4_K's times what they take of it on x86, but for IQ2_S,
whose signs take 11 instructions of 24 there (ggml_vec_dot_iq2_s_q8_K).

Where rows lie together (ik_llama.cpp's -rtr) each lane of a vector sums for a row of its own: nothing is added
across lanes, and no sum waits for another. Arm's instructions of those: counted in ik_llama.cpp's iqk_mul_mat.cpp
(mul_mat_q2_k_r4_q8_k and its like), all but loads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model.serving.batch import Number
from rooflab.work.llm.formats import WeightFormat


class Cores(NamedTuple):
    """Of 32 weights and a row, for a row alone and for many: clocks of a Zen 4 without and with AVX-512's products
    of 8-bit numbers, and instructions of Arm.
    """

    clocks: float
    clocks_of_many: float
    wide: float
    wide_of_many: float
    arm: float
    arm_of_many: float


_OF_FORMAT = {
    "q4_0": Cores(3.41, 2.58, 3.17, 1.71, 6.8, 3.3),
    "q4_1": Cores(4.86, 5.2, 5.53, 5.95, 11, 11),
    "q5_0": Cores(6.26, 4.2, 5.56, 2.7, 13, 3.5),
    "q5_1": Cores(6.3, 6.53, 5.88, 6.32, 13, 13),
    "q8_0": Cores(4.2, 2.82, 4.14, 2.15, 7, 3),
    "q2_k": Cores(2.65, 2.27, 2.74, 2.82, 11.5, 3.2),
    "q3_k": Cores(4.16, 2.55, 4.13, 1.23, 18, 4),
    "q4_k": Cores(2.99, 2.39, 2.84, 1.6, 8, 3),
    "q5_k": Cores(4.72, 2.07, 4.61, 1.04, 12, 3.5),
    "q6_k": Cores(3.55, 2.25, 3.22, 1.32, 16, 3.8),
    "iq4_nl": Cores(3.41, 2.59, 3.17, 1.85, 6.8, 3.8),
    "iq4_xs": Cores(4.8, 2.37, 4.68, 0.91, 9, 3.3),
    "iq3_xxs": Cores(10.6, 2.25, 10.61, 1.3, 23, 5),
    "iq3_s": Cores(12.97, 2.21, 12.38, 1.06, 28, 5.5),
    "iq2_xxs": Cores(7.63, 2.14, 8.04, 1.16, 17, 4.5),
    "iq2_xs": Cores(7.94, 2.28, 7.42, 1.38, 18, 4.5),
    "iq2": Cores(7.35, 2.28, 7.6, 1.25, 24, 4.5),
    "iq1": Cores(7.35, 7.35, 7.6, 7.6, 16, 16),
    "mxfp4": Cores(5.28, 5.36, 5.32, 5.31, 11, 11),
    "bf16": Cores(6.88, 3.25, 3.41, 1.3, 10.7, 5.0),
}
_TOGETHER_ARM = {
    "q2_k": 8.1,
    "q3_k": 13.5,
    "q4_k": 6.4,
    "q5_k": 12.2,
    "q6_k": 12.9,
    "iq4_xs": 7.2,
    "iq3_xxs": 22.3,
    "iq3_s": 24.3,
    "iq2_xxs": 18.3,
    "iq2_xs": 20.3,
    "iq2": 19.3,
}
_HALVES = Cores(4.54, 2.37, 6.93, 2.58, 10.7, 5.0)
# Rows that share a block's unpacking: on x86 all of them, on Arm those of a vector kernel.
_MANY, _MANY_ARM = 256.0, 8.0
# x86: formats of 256 weights that are multiplied in tiles of so many rows, from so many rows of a matrix on
# (ggml-cpu/tiled).
_TILED, _TILE, _TILED_FROM = ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq2", "iq3", "iq4_xs"), 16.0, 8.0
# Formats whose products widen a block once for several rows even where an engine does not for all (llama.cpp
# before 2026: its small matrix library on x86, what is laid out anew).
_ALWAYS, _ALWAYS_ARM = ("f16", "fp16", "bf16", "q4_0", "q5_0", "q8_0", "iq4_nl"), ("q4_0", "iq4_nl")
# Formats that are laid out anew, whose experts are met row by row (repack.cpp: gemv in forward_mul_mat_id).
_ANEW, _ANEW_WIDE = ("q4_0", "q4_k", "iq4_nl"), ("q4_0", "q4_k", "iq4_nl", "q2_k")
_ANEW_ARM = ("q4_0", "q4_k", "q5_k", "q6_k", "iq4_nl")


def taken(
    rows: Number,
    n: float,
    k: float,
    stored: WeightFormat,
    active: Number,
    *,
    widens_once: bool,
    experts_by_row: bool,
    together: bool = False,
) -> dict[str, Number]:
    """Clocks and instructions of a product of so many rows with one of `active` matrices each.

    Of Arm's instructions, those of a block or of a row alone, and those of each of several rows (`arm_of_many`).

    `experts_by_row`: whether routed ones of a format that is laid out anew are met row by row; `together`: whether
    rows of a matrix lie together, whose sums do not wait for each other.
    """
    name = stored.name
    cost = next((each for start, each in _OF_FORMAT.items() if name.startswith(start)), _HALVES)
    rows = np.asarray(rows, float)
    blocks = rows * n * k / 32.0

    def of(one: float, many: float, always: tuple[str, ...], anew: tuple[str, ...], most: float) -> Number:
        if not (widens_once or name.startswith(always)) or (experts_by_row and name.startswith(anew)):
            return blocks * one
        each = np.maximum(rows / np.maximum(active, 1.0), 1.0)
        if anew is _ANEW_ARM or name.startswith(anew) or not name.startswith(_TILED):
            return blocks * (many + (one - many) / np.minimum(each, most))
        # Of several matrices, whose rows differ, the last tile is half full in the mean.
        several = np.asarray(active, float) > 1
        whole = np.where(several, np.maximum(each + _TILE / 2, _TILE), np.ceil(each / _TILE) * _TILE)
        return blocks * np.where(each < _TILED_FROM, one, whole / each * (many + (one - many) / whole))

    alone = of(cost.arm, 0.0, _ALWAYS_ARM, _ANEW_ARM, _MANY_ARM)
    all_of = of(cost.arm, cost.arm_of_many, _ALWAYS_ARM, _ANEW_ARM, _MANY_ARM)
    one = next((each for start, each in _TOGETHER_ARM.items() if name.startswith(start)), None)
    if together and one is not None:
        alone = 0.0 * blocks
        all_of = of(one, min(cost.arm_of_many, one), _ALWAYS_ARM, _ANEW_ARM, _MANY_ARM)
    return {
        "core_clocks": of(cost.clocks, cost.clocks_of_many, _ALWAYS, _ANEW, _MANY),
        "wide_clocks": of(cost.wide, cost.wide_of_many, _ALWAYS, _ANEW_WIDE, _MANY),
        "arm_instructions": alone,
        "arm_of_many": all_of - alone,
    }
