"""From findings to a library's products and to how far translations of addresses reach."""

from __future__ import annotations

from rooflab.machines.bench.experiments.translations import Translations, steps
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.result.products_fitted import fitted
from rooflab.types.machine import Curve, Level, Source, is_main_memory, is_storage
from rooflab.types.measured import Products, Tlb
from rooflab.units import iec

# Times that a product's operands cross a level of memory at most.
_CROSSINGS = 3
# Share of memory in pages of a size from which on what was measured is of that size.
_GRANTED = 0.9


def translation_curves(findings: Findings, source: Source) -> list[Curve]:
    """What a load waits over the pages touched; where noise makes a difference negative, it waits nothing."""
    curves = []
    for each in findings.translations:
        if each.extra_s:
            waits = tuple(max(0.0, seconds) for seconds in each.extra_s.values())
            curves.append(
                Curve(
                    name=f"translation wait, {_where(each)}",
                    x_unit="page",
                    y_unit="s",
                    scope="core",
                    x=tuple(float(count) for count in each.extra_s),
                    best=waits,
                    median=waits,
                    source=source,
                    threads=1,
                )
            )
    return curves


def _where(each: Translations) -> str:
    pages = f"{iec(each.page_bytes)} pages"
    return f"{iec(each.step_bytes)} steps in {pages}" if each.step_bytes else pages


def tlbs(findings: Findings, source: Source) -> tuple[Tlb, ...]:
    """How far translations reach, by size of page; nothing of pages that the system did not grant."""
    found = []
    for each in findings.translations:
        if not each.extra_s or each.step_bytes or (each.granted is not None and each.granted < _GRANTED):
            continue
        levels_of = steps(each.extra_s)
        found.append(
            Tlb(
                page_bytes=each.page_bytes,
                source=source,
                entries=tuple(held for held, _ in levels_of),
                miss_s=tuple(waits for _, waits in levels_of),
                held_pages=max(each.extra_s),
                note="pages are touched in half octaves: an entry is the last number that none waited for",
            )
        )
    return tuple(found)


def products(findings: Findings, memory: tuple[Level, ...], source: Source) -> tuple[Products, ...]:
    """The constants of each library's products, as fitted to those timed."""
    caches = _caches(memory)
    most = _most(memory)
    return tuple(row for library in findings.libraries for row in fitted(library, caches, source, most))


def _most(memory: tuple[Level, ...]) -> dict[str, float]:
    """Seconds a byte that a product's terms cannot exceed: its operands cross a level a few times at most."""
    limits = {}
    for level in memory:
        rate = level.rate("read", scope="core", basis="attained")
        if rate is not None and not is_storage(level):
            limits["memory_byte_s" if is_main_memory(level) else "far_byte_s"] = _CROSSINGS / rate.value
    return limits


def _caches(memory: tuple[Level, ...]) -> list[tuple[float, float]]:
    """What a core's own caches hold, and what the last may: as found, as reported, and between the two."""
    caches = [level for level in memory if not is_main_memory(level) and not is_storage(level)]
    if not caches:
        return [(0.0, 0.0)]
    *nearer, last = caches
    own = nearer[-1].reported_capacity_bytes or nearer[-1].capacity_bytes or 0.0 if nearer else 0.0
    found, reported = last.capacity_bytes or 0.0, last.reported_capacity_bytes or last.capacity_bytes or 0.0
    return [(own, size) for size in dict.fromkeys((found, (found * reported) ** 0.5, reported))]
