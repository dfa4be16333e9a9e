"""ERT, the Empirical Roofline Tool: its roofline.json, with what was attained and what was specified."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import attained
from rooflab.observe.reading.opened import content
from rooflab.types.machine import Check, Kind, Level, Machine, Rate, Source
from rooflab.units import percent, si

SOURCE = "ERT"

_KEYS = (b'"empirical"', b'"gflops"', b'"gbytes"')
_DTYPES = {
    "fp64": "fp64",
    "fp32": "fp32",
    "fp16": "fp16",
    "bf16": "bf16",
    "dp": "fp64",
    "sp": "fp32",
    "hp": "fp16",
}
_MOST_ROWS = 1000


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of ERT: a JSON object of one roofline, or the start of one."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return bool(re.match(rb'\{\s*"(?:empirical|spec)"\s*:', start)) and sum(key in head for key in _KEYS) >= 2


def load(path: Path) -> Machine:
    """The roofs in the file at `path`.

    Raises:
        FileError: not JSON, or no rate in it.
    """
    try:
        whole: Any = msgspec.json.decode(content(path, 2**28).removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"{path}: ERT's roofline.json cannot be read ({error}); expected a whole file") from None
    origin = attained.source(SOURCE, path)
    empirical, spec = _object(whole, "empirical"), _object(whole, "spec")
    metadata = _metadata(empirical)
    bandwidths, dropped = _pairs(empirical, "gbytes")
    speeds, more = _pairs(empirical, "gflops")
    if not bandwidths and not speeds:
        raise attained.nothing(path, SOURCE, "no number in empirical.gbytes.data or gflops.data", "[name, number]")
    rates = [(name, attained.byte_rate("any", value, origin)) for name, value in bandwidths]
    rates += [(name, _theory("any", value, origin)) for name, value in _pairs(spec, "gbytes")[0]]
    levels = _levels(rates, origin)
    peaks = [_peak(name, value, origin, metadata) for name, value in speeds]
    peaks += [
        msgspec.structs.replace(_peak(name, value, origin, metadata), basis="theoretical")
        for name, value in _pairs(spec, "gflops")[0]
    ]
    host = metadata.get("HOSTNAME")
    return Machine(
        name=f"{host if isinstance(host, str) and host else path.stem} (ERT)"[:200],
        kind=_kind(metadata),
        source=origin,
        levels=levels,
        peaks=tuple(peaks),
        checks=tuple(_checks(levels)),
        note=attained.note(
            "Attained, as ERT found it (dashed: what its configuration states); GB is 1e9 bytes. ERT tells "
            "levels by steps of the bandwidth, reads and writes mixed half and half, and calls the furthest DRAM. "
            f"{_precision(metadata)}.",
            attained.dropped_sentence(dropped + more),
        ),
    )


def _object(whole: Any, key: str) -> dict[str, Any]:
    found = whole.get(key) if isinstance(whole, dict) else None
    return found if isinstance(found, dict) else {}


def _pairs(roofs: dict[str, Any], key: str) -> tuple[list[tuple[str, float]], int]:
    """The [name, number] pairs with a number above nothing, and how many others there are."""
    data = _object(roofs, key).get("data")
    found: list[tuple[str, float]] = []
    dropped = 0
    for one in data[:_MOST_ROWS] if isinstance(data, list) else []:
        pair = one if isinstance(one, list) and len(one) == 2 else ("", None)
        value = attained.positive(pair[1], 1e9) if isinstance(pair[0], str) and pair[0].strip() else None
        if value is None:
            dropped += 1
        else:
            found.append((pair[0].strip()[:60], value))
    return found, dropped


def _metadata(empirical: dict[str, Any]) -> dict[str, Any]:
    """What the run said of itself: in common, else of either half."""
    merged: dict[str, Any] = {}
    for half in (_object(empirical, "gflops"), _object(empirical, "gbytes"), empirical):
        merged |= _object(half, "metadata")
    return merged


def _theory(what: str, value: float, origin: Source) -> Rate:
    return Rate(value=value, per_s="byte", what=what, basis="theoretical", source=origin)


def _levels(rates: list[tuple[str, Rate]], origin: Source) -> tuple[Level, ...]:
    """Levels in the file's order of speed, the nearest first; those named alike are one."""
    by_name: dict[str, list[Rate]] = {}
    for name, rate in rates:
        by_name.setdefault(name, []).append(rate)
    order = sorted(by_name.items(), key=lambda item: -max(rate.value for rate in item[1]))
    order.sort(key=lambda item: item[0] == "DRAM")
    return tuple(
        Level(name=name, source=origin, rates=tuple(_one_of_each_basis(several))) for name, several in order
    )


def _one_of_each_basis(rates: list[Rate]) -> list[Rate]:
    fastest: dict[str, Rate] = {}
    for rate in rates:
        if rate.basis not in fastest or rate.value > fastest[rate.basis].value:
            fastest[rate.basis] = rate
    return list(fastest.values())


def _peak(name: str, value: float, origin: Source, metadata: dict[str, Any]) -> Rate:
    """A peak; ERT's kernel is in double precision unless its name or the run's metadata says otherwise."""
    return attained.flop_rate("fma", value, _dtype(name, metadata), origin, note=f"ERT: {name}")


def _dtype(name: str, metadata: dict[str, Any]) -> str:
    words = re.split(r"[^a-z0-9]+", name.lower())
    stated = re.split(r"[^a-z0-9]+", str(metadata.get("ERT_PRECISION", metadata.get("PRECISION", ""))).lower())
    return next((_DTYPES[word] for word in (*words, *stated) if word in _DTYPES), "fp64")


def _precision(metadata: dict[str, Any]) -> str:
    stated = metadata.get("ERT_PRECISION", metadata.get("PRECISION"))
    return f"Precision: {stated}" if stated else "The file states no precision: ERT's kernel computes in fp64"


def _kind(metadata: dict[str, Any]) -> Kind:
    """A GPU where the run had blocks of one; else a CPU."""
    on_gpu = any(key.startswith("GPU_") for key in metadata) or str(metadata.get("ERT_GPU", "")).lower() == "true"
    return "gpu" if on_gpu else "cpu"


def _checks(levels: tuple[Level, ...]) -> list[Check]:
    """Failed checks of levels that were faster than what the configuration states."""
    checks = []
    for level in levels:
        found, theory = level.rate("any", basis="attained"), level.rate("any", basis="theoretical")
        if found and theory and found.value > theory.value * (1 + attained.TOLERANCE):
            message = (
                f"{level.name} attained {si(found.value, 'B/s')}, {percent(found.value / theory.value)} of the "
                f"{si(theory.value, 'B/s')} that its configuration states: a cache, or another machine's"
            )
            checks.append(Check(name=f"{level.name} against its specification", ok=False, message=message))
    return checks
