"""Roofs that Intel Advisor's own benchmarks attained, by their names, as a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rooflab.types.machine import Engine, Level, Machine, PerS, Rate, Scope, Source

_MEMORY = re.compile(r"(L[1-4]|DRAM|HBM|MCDRAM|SLM|GTI)\b.*Bandwidth", re.IGNORECASE)
_COMPUTE = re.compile(
    r"(?:(?P<dtype>[SDH]P|BF16|FP\d+|INT\d+|Int\d+)\s+)?(?P<kind>Vector|Scalar|XMX|DPAS|Matrix)\s+(?P<what>FMA|Add)",
    re.IGNORECASE,
)
_DTYPES = {"SP": "fp32", "DP": "fp64", "HP": "fp16"}
_KINDS: dict[str, Engine] = {"vector": "vector", "scalar": "scalar", "xmx": "matrix", "dpas": "matrix"}
_ORDER = ("L1", "L2", "L3", "L4", "HBM", "DRAM")
_MOST = 1e21  # per second: beyond is no number that a machine attains


class Roof(NamedTuple):
    """A roof by its name, per second in bytes or operations, of `threads` threads; None where not said."""

    name: str
    value: float
    threads: int | None = None


def machine(roofs: Iterable[Roof], name: str, source: Source) -> Machine | None:
    """The machine whose roofs these are; None without a single one that can be read.

    Roofs of one thread are a core's; of the others the greatest number of threads is the whole machine's.
    """
    found = [roof for roof in roofs if 0 < roof.value < _MOST]
    threads = [roof.threads for roof in found if roof.threads is not None]
    most = max(threads, default=None)
    levels: dict[str, dict[Scope, Rate]] = {}
    peaks: dict[tuple[Scope, str, str | None, Engine | None], Rate] = {}
    for roof in found:
        single = roof.threads == 1 or "single-thread" in roof.name.lower()
        if not single and roof.threads not in (None, most):
            continue
        if "single node" in roof.name.lower() or "single package" in roof.name.lower():
            continue
        scope: Scope = "core" if single else "all"
        memory, compute = _MEMORY.match(roof.name), _COMPUTE.match(roof.name)
        if memory:
            level = memory.group(1).upper()
            rate = _rate(roof, "byte", "any", scope, source)
            levels.setdefault(level, {}).setdefault(scope, rate)
        elif compute:
            dtype = _dtype(compute.group("dtype"))
            engine = _KINDS.get(compute.group("kind").lower(), "matrix")
            integer = dtype is not None and dtype.startswith("int")
            rate = _rate(
                roof, "op" if integer else "flop", compute.group("what").lower(), scope, source, dtype, engine
            )
            peaks.setdefault((scope, rate.what, dtype, engine), rate)
    if not levels and not peaks:
        return None
    return Machine(
        name=name,
        kind="cpu",
        source=source,
        vendor="Intel" if "intel" in name.lower() else None,
        levels=tuple(
            Level(name=level, source=source, rates=tuple(levels[level].values()))
            for level in sorted(levels, key=lambda one: _ORDER.index(one) if one in _ORDER else len(_ORDER))
        ),
        peaks=tuple(peaks.values()),
    )


def _rate(
    roof: Roof,
    per_s: PerS,
    what: str,
    scope: Scope,
    source: Source,
    dtype: str | None = None,
    engine: Engine | None = None,
) -> Rate:
    return Rate(
        value=roof.value,
        per_s=per_s,
        what=what,
        basis="attained",
        source=source,
        scope=scope,
        threads=roof.threads,
        dtype=dtype,
        engine=engine,
        note=roof.name,
    )


def _dtype(text: str | None) -> str | None:
    """Advisor's "SP", "DP", "Int64", "BF16" by rooflab's names; None for a roof of no certain format."""
    if text is None:
        return None
    return _DTYPES.get(text.upper(), text.lower())
