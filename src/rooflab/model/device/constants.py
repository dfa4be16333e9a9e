"""The few constants of a machine family: what real kernels lose, each with its meaning and source.

One data file per family. A family may be `like` another one: what it does not state is taken from there
in physical units (clocks, bytes, shares of a peak), so that it scales with the card, and its error bars
are `wider`. Libraries' kernels that neither of the two knows are those of the families that it is `near`.
What a library's product attains is taken in proportion to what cuBLAS's does there and here: see `moved`.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError, UnknownNameError, squash
from rooflab.model.file_heads import heads
from rooflab.types.constants import Constant, Constants
from rooflab.types.machine import Machine, Source
from rooflab.units import parse_any

_DATA = "rooflab.model", "data"  # where the families' files lie


def constants_of(machine: Machine) -> Constants:
    """The constants of the family that `machine` belongs to, by its names, else by vendor and year, else kind."""
    names = [squash(name) for name in (machine.name, *machine.aliases)]
    families = {name: _head(raw) for name, raw in heads(*_DATA).items()}
    best, length = None, 0
    for name, family in families.items():
        if machine.kind == "cpu" and family.kind != "cpu":  # the cores of a chip whose GPU is of that family
            continue
        for member in map(squash, family.members):
            # The longest member wins: "rtx5070ti" before "rtx".
            if len(member) > length and any(member in each for each in names):
                best, length = name, len(member)
    if best is not None:
        return load_family(best)
    for name, family in families.items():
        if family.kind == machine.kind and family.vendor == machine.vendor and _in_years(family, machine.year):
            found = load_family(name)
            return msgspec.structs.replace(found, wider=found.wider * _UNLISTED)
    for name, family in families.items():
        if family.kind == machine.kind and family.vendor is None:
            return load_family(name)
    return load_family("any")


class _Head(NamedTuple):
    """What says which machines a family is of: as in `Constants`."""

    members: tuple[str, ...]
    kind: str
    vendor: str | None
    years: tuple[int, int] | None


def _head(raw: dict[str, Any]) -> _Head:
    years = raw.get("years")
    return _Head(
        members=tuple(raw.get("members") or ()),
        kind=raw.get("kind") or "gpu",
        vendor=raw.get("vendor"),
        years=(years[0], years[1]) if years else None,
    )


def _in_years(family: _Head, year: int | None) -> bool:
    return year is not None and family.years is not None and family.years[0] <= year <= family.years[1]


_UNLISTED = 1.3  # a card that no family names: its family is a guess by vendor and year


def family_names() -> tuple[str, ...]:
    """The families that have a data file."""
    return tuple(heads(*_DATA))


@functools.cache
def load_family(family: str) -> Constants:
    """The constants of `family`, with what it takes from the family that it is `like`.

    Raises:
        UnknownNameError: no such family.
        RooflabError: a constant without a source or a meaning.
    """
    if family not in family_names():
        raise UnknownNameError("machine family", family, family_names())
    return constants_from_dict(_raw(family), f"{family}.toml")


def _raw(family: str) -> dict[str, Any]:
    package, folder = _DATA
    path = resources.files(package) / folder / f"{family}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


_HEAD = ("family", "members", "kind", "vendor", "years", "like", "near", "wider")
# Mechanisms whose topics MECHANISM_LIBRARY tell of one library's kernels (model/kernels/common.py: by_library).
_BY_LIBRARY = ("attention_", "matmul_")


# What a product attains that is its hardware's as much as its own: by mechanism, the names of its topic.
_ATTAINED = {
    "matmul": (
        "memory_share",
        "cache_share",
        "step_clocks",
        "older_step_clocks",
        "store_bytes_per_clock",
        "older_store_bytes_per_clock",
        "share_half",
        "share_fp8",
        "share_int8",
    )
}

# How far a library's kernel on one family of cards is from what another family's constants, or another library's,
# say, as a deviation of ln: of attention on A100, H100, L40S and B200, each left out (`benchmarks/engine_layers.py
# --without`), four of five rows are within .25, with families' own constants within .15 (1.28 deviations each). Of
# products on these cards: the root mean square over 22 libraries of what each one's own lacked for four of five.
APART = {"attention": 0.16, "matmul": 0.16}

_SPREADS = ("spread", "long_spread", "spread_fp8", "spread_older")

# What a product for groups of rows stores in a clock is its epilogue's own, row by row to where each goes.
_OWN_OF_GROUPS = ("store_bytes_per_clock", "older_store_bytes_per_clock")


@functools.cache
def of_libraries(family: str) -> dict[str, Constant]:
    """What the file of `family` itself states of libraries' kernels, by "topic.name"; nothing that it inherits."""
    return {name: each for name, each in _own(family).items() if name.startswith(_BY_LIBRARY)}


@functools.cache
def _own(family: str) -> dict[str, Constant]:
    """What the file of `family` itself states."""
    raw = _raw(family)
    for name in _HEAD:
        raw.pop(name, None)
    return _stated(raw, f"{family}.toml")


@functools.cache
def of_mechanisms(family: str) -> dict[str, Constant]:
    """All that `family` states or inherits but libraries' kernels."""
    like = _raw(family).get("like")
    stated = {name: each for name, each in _own(family).items() if not name.startswith(_BY_LIBRARY)}
    return (of_mechanisms(like) if like else {}) | stated


def moved(
    found: Mapping[str, Constant], there: Mapping[str, Constant], here: Mapping[str, Constant]
) -> dict[str, Constant]:
    """Constants as one family takes them from another: what libraries' products attain moves with cuBLAS's.

    Their kernels are made of the same instructions and wait for the same caches as cuBLAS's of their family: of
    two families, the ratio to its constants (topic `matmul` of `there`, `here`) is nearer than the number. What
    starting a kernel or finding a tile takes is the library's own, and so is how long steps wait for their loads
    where tiles are short of them (`tile_step_bytes`). A share stays one. Bars are wider: `APART`.
    """
    made = dict(found)
    for name, each in found.items():
        topic, _, short = name.partition(".")
        mechanism = topic.partition("_")[0]
        apart = APART.get(mechanism, 0.0) if topic != mechanism and short in _SPREADS else 0.0
        if apart and not isinstance(each.value, list):
            made[name] = msgspec.structs.replace(each, value=math.hypot(each.value, apart))
        base = f"{mechanism}.{short}"
        if topic == mechanism or short not in _ATTAINED.get(mechanism, ()) or base not in there:
            continue
        if topic.endswith("_groups") and short in _OWN_OF_GROUPS:
            continue
        if short == "step_clocks" and f"{topic}.tile_step_bytes" in found:
            continue
        was, now = there[base].value, here[base].value
        if was == now or isinstance(each.value, list) or isinstance(was, list) or isinstance(now, list):
            continue
        value = each.value * now / was
        most = 1.0 if short == "memory_share" or short.startswith("share_") else value
        made[name] = msgspec.structs.replace(each, value=min(value, most))
    return made


def with_near(values: dict[str, Constant], families: Iterable[str]) -> dict[str, Constant]:
    """`values`, with what the first of `families` that knows them states of libraries' kernels that they lack."""
    found = dict(values)
    for family in families:
        known = {name.partition(".")[0] for name in found}
        lacking = {
            name: each for name, each in of_libraries(family).items() if name.partition(".")[0] not in known
        }
        found |= moved(lacking, of_mechanisms(family), values)
    return found


def with_groups(values: dict[str, Constant]) -> dict[str, Constant]:
    """`values`, with what starts and tiles take of kernels for groups of rows that state neither: as CUTLASS's.

    All of them find their group before they multiply. Those that TensorRT-LLM generates start as others do: each
    block's group is written down for it before, and no tensor is described anew (NVIDIA/TensorRT-LLM,
    trtllmGenKernels/batchedGemm: ptrCtaIdxXyToBatchIdx).
    """
    found = dict(values)
    topics = {name.partition(".")[0] for name in values if name.startswith("matmul_")}
    for topic in topics:
        if topic.endswith("_groups"):
            of_groups = _OF_GROUPS[1:] if topic == _GENERATED else _OF_GROUPS
            like = {f"{topic}.{short}": values.get(f"{_GROUPS}.{short}") for short in of_groups}
            found |= {name: each for name, each in like.items() if each is not None and name not in values}
    return found


_GROUPS, _GENERATED = "matmul_cutlass_groups", "matmul_trtllm_gen_groups"
_OF_GROUPS = ("launch_s", "tile_clocks")


def constants_from_dict(raw: dict[str, Any], where: str) -> Constants:
    """The constants in the tables of a family's data file; `where` names it in errors."""
    head = {name: raw.pop(name, None) for name in _HEAD}
    stated = _stated(raw, where)
    inherited = load_family(head["like"]).values if head["like"] else {}
    values = with_near(moved(inherited, inherited, {**inherited, **stated}) | stated, head["near"] or ())
    values = with_groups(values)
    own = _head(head)
    return Constants(
        family=head["family"] or where,
        members=own.members,
        kind=own.kind,
        vendor=own.vendor,
        years=own.years,
        wider=head["wider"] or 1.0,
        values=values,
    )


def _stated(raw: dict[str, Any], where: str) -> dict[str, Constant]:
    """The constants in tables with their `sources`; `where` names them in errors."""
    sources = {name: msgspec.convert(each, Source) for name, each in raw.pop("sources", {}).items()}
    values = {}
    for topic, name, entry in _flat(raw):
        if not isinstance(entry, dict) or not {"value", "meaning", "source"} <= entry.keys():
            raise RooflabError(f"{where}: {topic}.{name} needs a value, a meaning and a source, got {entry!r}")
        if entry["source"] not in sources:
            raise UnknownNameError(f"source of {where}, {topic}.{name}", entry["source"], sorted(sources))
        values[f"{topic}.{name}"] = Constant(
            value=_number(entry["value"]),
            meaning=entry["meaning"],
            source=sources[entry["source"]],
            fitted=entry.get("fitted", False),
        )
    return values


def _flat(raw: dict[str, Any]) -> Iterable[tuple[str, str, Any]]:
    for topic, table in raw.items():
        for name, entry in table.items():
            yield topic, name, entry


def _number(value: Any) -> float | list[float]:
    if isinstance(value, list):
        return [_one(each) for each in value]
    return _one(value)


def _one(value: Any) -> float:
    return float(parse_any(value)[0]) if isinstance(value, str) else float(value)
