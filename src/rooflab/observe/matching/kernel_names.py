"""What a kernel is by its name alone: the sort of operation and the number format, where that is certain."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

from rooflab.types.kernel_names import short_name

_OPERATORS = re.compile(r"triton_[a-z]+_fused_(?P<names>\w+?)_?(?P<number>\d*)$")
_SORTS = {"poi": "pointwise", "per": "reduction", "red": "reduction"}


class Known(NamedTuple):
    """What a name says.

    Attributes:
        kind: of rooflab's formulas, or "fused".
        fits: kinds of operation that such kernels run for, `kind` among them.
        dtype: that it computes in; "" where the name does not say.
        helper: whether it only prepares or finishes another kernel: of the one "before" it in time that follows
            ("before"), of the one that it follows ("after"), of either ("beside").
        operators: that it was fused of, as the name has them ("add_native_layer_norm"); "" for no such kernel.
    """

    kind: str
    fits: frozenset[str]
    dtype: str = ""
    helper: Literal["before", "after", "beside"] | None = None
    operators: str = ""


@cache
def _table() -> tuple[tuple[re.Pattern[str], Known], ...]:
    rows = tomllib.loads((files("rooflab.observe.matching") / "kernel_names.toml").read_text(encoding="utf-8"))
    return tuple(
        (
            re.compile(row["pattern"]),
            Known(row["kind"], frozenset((row["kind"], *row.get("fits", ()))), helper=row.get("helper")),
        )
        for row in rows["kernel"]
    )


@cache
def _formats() -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = tomllib.loads((files("rooflab.observe.matching") / "kernel_names.toml").read_text(encoding="utf-8"))
    return tuple((re.compile(row["pattern"]), row["dtype"]) for row in rows["dtype"])


_WRAPPED = re.compile(
    r"cudafunctor_?|_?functor|_?(cuda|gpu)?_?kernel(_?(cuda|impl))*|ops$|^float16_|^bfloat16_|^direct_|_cuda$|impl$"
)


@cache
def applied(name: str) -> str:
    """The function that a kernel of PyTorch applies ("gelu", "add", "copy"); "" where its name has none."""
    short = short_name(name, 200)
    inside = short.partition("[")[2].rstrip("]").lower() if short.endswith("]") else ""
    return "" if "cutlass" in inside else _WRAPPED.sub("", inside).strip("_")


@cache
def known(name: str) -> Known | None:
    """What the kernel `name` is; None where its name does not say for certain."""
    text = name[:4096]  # templates' arguments go on for long; what tells stands at the front
    found = next((row for pattern, row in _table() if pattern.search(text)), None)
    if found is None:
        return None
    if found.kind == "fused":
        fused = _OPERATORS.match(text)
        return found._replace(operators=fused.group("names") if fused else "")
    if found.kind in ("matmul", "attention", "attention_backward", "conv", "conv_backward"):
        return found._replace(dtype=next((dtype for pattern, dtype in _formats() if pattern.search(text)), ""))
    return found
