"""Variants as a picture: how long each takes, what binds it, how sure that is."""

from __future__ import annotations

from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.variants import Variants
from rooflab.units import duration
from rooflab.views.common import bars
from rooflab.views.common.marks import bound_colours
from rooflab.views.common.theme import LIGHT, Theme
from rooflab.views.variants.sheet import samples

_FAR = 30.0  # times the shortest from which on bars on a common axis say nothing of it


def chart(variants: Variants, *, theme: Theme = LIGHT, width: int = 720) -> Any:
    """Predicted seconds of each variant, for each sample where the work differs.

    Raises:
        RooflabError: no variant has a prediction of the whole.
    """
    each = samples(variants)
    sizes = each or (1.0,) * len(variants.reports)
    parts, texts = [], {}
    for name, report, size in zip(variants.names, variants.reports, sizes, strict=True):
        prediction = report.prediction
        if prediction is None:
            texts[name] = "not predicted as a whole"
            continue
        bar = f"{duration(prediction.low_s / size)} to {duration(prediction.high_s / size)}"
        parts.append(
            bars.Part(name, 0.0, prediction.time_s / size, prediction.bound, f"{bar}; {prediction.binds}")
        )
        texts[name] = f"{duration(prediction.time_s / size)} ({bar})"
    if not parts:
        raise RooflabError(f"{variants.name}: no variant is predicted as a whole, so no picture")
    times = [part.high for part in parts]
    per_sample = each is not None and len(set(each)) > 1
    panel = bars.Panel(
        variants.names,
        parts,
        texts,
        "predicted time for each sample" if per_sample else "predicted time",
        bars.TIME,
        bound_colours(theme),
        log=max(times) > _FAR * min(times),
    )
    return bars.chart(variants.name, "Predicted; with the interval of four of five cases", (panel,), theme, width)
