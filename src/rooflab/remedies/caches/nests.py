"""Streams of one loop nest changed: loops in another order or in tiles, stores past the caches, other layouts.

What is changed must give the same results, of which a stream says nothing but its addresses: so each array is only
loaded or only stored, what is stored lies elsewhere for each trip of the loops that move it, and no more than one
loop stores it again (a sum over that loop, or its last value): the order of that loop's trips stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

from rooflab.cachesim.native.layout import LOAD, STORE, STREAM
from rooflab.cachesim.streams import nests
from rooflab.cachesim.streams.nests import Access, Loop, Program
from rooflab.cachesim.streams.stream import PAGE_BYTES, Stream


class Result(NamedTuple):
    """What is stored at one place of a nest.

    Attributes:
        store: the access.
        load: where it is loaded before: it is a sum then.
        over: the loops whose trips all store the same place.
        kept: whether a register holds it over the innermost of these loops.
    """

    store: Access
    load: Access | None
    over: tuple[str, ...]
    kept: bool


class Nest(NamedTuple):
    """A nest of loops with all its accesses: outer loops first, loads in the order of the source."""

    loops: tuple[Loop, ...]
    loads: tuple[Access, ...]
    results: tuple[Result, ...]

    @property
    def movable(self) -> tuple[str, ...]:
        """The loops that move some access: others only repeat."""
        every = (*self.loads, *(each.store for each in self.results))
        return tuple(loop.name for loop in self.loops if any(one.strides.get(loop.name) for one in every))


def nest_of(stream: Stream) -> Nest | None:
    """The nest of `stream`; None where it is none whose loops may be moved."""
    if stream.program is None or len(stream.program.loops) != 1:
        return None
    loops: list[Loop] = []
    before: list[Access] = []
    after: list[Access] = []
    body: tuple[Loop | Access, ...] = stream.program.loops
    while True:
        inner = [part for part in body if isinstance(part, Loop)]
        if not inner:
            break
        if len(inner) > 1 or inner[0].clip:
            return None
        place = body.index(inner[0])
        before += [part for part in body[:place] if isinstance(part, Access)]
        after = [*(part for part in body[place + 1 :] if isinstance(part, Access)), *after]
        loops.append(inner[0])
        body = inner[0].body
    inside = [part for part in body if isinstance(part, Access)]
    return _checked(stream, loops, before, inside, after)


def _checked(
    stream: Stream, loops: list[Loop], before: list[Access], inside: list[Access], after: list[Access]
) -> Nest | None:
    extents = {loop.name: loop.extent for loop in loops}
    loads = [each for each in (*before, *inside) if each.request == LOAD]
    stores = [each for each in (*inside, *after) if each.request == STORE]
    if len(loads) + len(stores) != len(before) + len(inside) + len(after):
        return None
    stored: dict[str, Access] = {}
    for each in stores:
        array = stream.arrays[each.reference]
        if array in stored or not _apart(each, extents):
            return None
        stored[array] = each
    results = []
    for array, store in stored.items():
        own = [each for each in loads if stream.arrays[each.reference] == array]
        if any(
            (each.base, each.strides, each.nbytes) != (store.base, store.strides, store.nbytes) for each in own
        ):
            return None
        over = tuple(loop.name for loop in loops if not store.strides.get(loop.name))
        if len(over) > 1 or len(own) > 1:
            return None
        results.append(Result(store, own[0] if own else None, over, store in after))
    held = [each.load for each in results if each.load is not None]
    return Nest(tuple(loops), tuple(each for each in loads if each not in held), tuple(results))


def _apart(store: Access, extents: dict[str, int]) -> bool:
    """Whether trips of the loops that move `store` all store elsewhere."""
    moving = sorted((abs(step), name) for name, step in store.strides.items() if step and name in extents)
    reach = store.nbytes
    for step, name in moving:
        if step < reach:
            return False
        reach += step * (extents[name] - 1)
    return True


def built(stream: Stream, nest: Nest, title: str) -> Stream | None:
    """`stream` as `nest` has it: what the innermost loop does not move is held in a register over it."""
    innermost = nest.loops[-1].name
    references, arrays = list(stream.references), list(stream.arrays)
    moved = [each for each in nest.loads if each.strides.get(innermost)]
    before = [each for each in nest.loads if not each.strides.get(innermost)]
    after: list[Access] = []
    stores: list[Access] = []
    for one in nest.results:
        loops_over = [loop.name for loop in nest.loops if not one.store.strides.get(loop.name)]
        summed = one.load is not None or one.kept
        held = not one.store.strides.get(innermost)
        if held and not summed:
            return None  # stored again and again: only the last value counts
        if summed and (one.load is not None or loops_over != [innermost]):
            load = one.load
            if load is None:  # a sum from zero, now in parts
                number = _reference(references, arrays, one.store)
                load = replace(one.store, reference=number, request=LOAD)
            (before if held else moved).append(load)
        (after if held else stores).append(one.store)
    inner = replace(nest.loops[-1], body=(*moved, *stores))
    if not inner.body:
        return None
    if len(nest.loops) == 1 and (before or after):
        return None  # nothing is around the only loop
    outermost = inner
    for number, loop in enumerate(reversed(nest.loops[:-1])):
        outermost = replace(loop, body=(*before, outermost, *after) if number == 0 else (outermost,))
    return _stream(stream, Program((outermost,)), title, tuple(references), tuple(arrays))


def _reference(references: list[str], arrays: list[str], store: Access) -> int:
    """The number of the load of what `store` stores: a new reference where there is none."""
    name = references[store.reference].removesuffix(" =")
    if name not in references:
        references.append(name)
        arrays.append(arrays[store.reference])
    return references.index(name)


def _stream(
    stream: Stream, program: Program, title: str, references: Sequence[str] = (), arrays: Sequence[str] = ()
) -> Stream:
    accesses, nbytes = (sum(nests.count(loop, weight) for loop in program.loops) for weight in (False, True))
    return replace(
        stream,
        name=title,
        program=program,
        accesses=accesses,
        accessed_bytes=nbytes,
        references=tuple(references) or stream.references,
        arrays=tuple(arrays) or stream.arrays,
    )


_MOST_LOOPS = 4  # that are put into every order


def exchanged(stream: Stream, line_bytes: int) -> list[tuple[str, Stream]]:
    """(order, stream) with the loops in each other order that steps over fewer lines, fewest first."""
    nest = nest_of(stream)
    if nest is None or not 2 <= len(nest.movable) <= _MOST_LOOPS:
        return []
    now = _lines_a_step(nest, nest.loops[-1].name, line_bytes)
    found = []
    for order in permutations(nest.movable):
        least = _lines_a_step(nest, order[-1], line_bytes)
        if order == nest.movable or least >= now:
            continue
        places = iter(order)
        by_name = {loop.name: loop for loop in nest.loops}
        loops = tuple(by_name[next(places)] if loop.name in nest.movable else loop for loop in nest.loops)
        names = ", ".join(loop.name for loop in loops)
        changed = built(stream, nest._replace(loops=loops), f"{stream.name}, loops {names}")
        if changed is not None:
            found.append((least, names, changed))
    return [(names, changed) for _, names, changed in sorted(found, key=lambda one: one[:2])]


def _lines_a_step(nest: Nest, innermost: str, line_bytes: int) -> float:
    """Lines that one trip of `innermost` goes on by, over all accesses."""
    every = (*nest.loads, *(each.store for each in nest.results))
    return sum(min(1.0, abs(each.strides.get(innermost, 0)) / line_bytes) for each in every)


def tiled(stream: Stream, size: int) -> Stream | None:
    """`stream` with its loops cut into tiles of `size` trips; None where it has none to cut."""
    nest = nest_of(stream)
    if nest is None or len(nest.movable) < 2:
        return None
    cut = [loop for loop in nest.loops if loop.name in nest.movable and loop.extent > size]
    names = {loop.name for loop in nest.loops}
    if (
        len(cut) < 2
        or any(loop.name * 2 in names for loop in cut)
        or len(nest.loops) + len(cut) > nests.MOST_LOOPS
    ):
        return None

    def far(access: Access) -> Access:
        steps = {loop.name * 2: access.strides[loop.name] * size for loop in cut if access.strides.get(loop.name)}
        return replace(access, strides={**access.strides, **steps})

    outer = [Loop(loop.name * 2, -(-loop.extent // size), ()) for loop in cut]
    inner = [
        replace(loop, extent=size, clip=(loop.name * 2, loop.extent)) if loop in cut else loop
        for loop in nest.loops
        if loop.name in nest.movable
    ]
    repeating = [loop for loop in nest.loops if loop.name not in nest.movable]
    results = tuple(
        each._replace(store=far(each.store), load=None if each.load is None else far(each.load))
        for each in nest.results
    )
    loops = (*repeating, *outer, *inner)
    changed = Nest(loops, tuple(map(far, nest.loads)), results)
    return built(stream, changed, f"{stream.name}, tiles of {size:,}")


def along_lines(stream: Stream, shape: Shape) -> bool:
    """Whether the loop around each access of an array goes from item to item: whole lines one after the other."""

    def inner(loop: Loop) -> dict[int, int]:
        found: dict[int, int] = {}
        for part in loop.body:
            found |= inner(part) if isinstance(part, Loop) else {id(part): part.strides.get(loop.name, 0)}
        return found

    loops = stream.program.loops if stream.program is not None else ()
    steps = {key: step for loop in loops for key, step in inner(loop).items()}
    return all(steps.get(id(each)) == each.nbytes for each in shape.accesses)


def past_caches(stream: Stream, arrays: Sequence[str]) -> Stream | None:
    """`stream` with the stores of those arrays as non-temporal ones."""
    if stream.program is None:
        return None

    def changed(part: Loop | Access) -> Loop | Access:
        if isinstance(part, Loop):
            return replace(part, body=tuple(map(changed, part.body)))
        written = part.request == STORE and stream.arrays[part.reference] in arrays
        return replace(part, request=STREAM) if written else part

    return _over(stream, changed, f"{stream.name}, past the caches")


def _over(stream: Stream, changed: Callable[[Loop | Access], Loop | Access], title: str) -> Stream:
    """`stream` with each of its outermost loops `changed`."""
    assert stream.program is not None
    loops = [each for each in map(changed, stream.program.loops) if isinstance(each, Loop)]
    return _stream(stream, Program(tuple(loops)), title)


class Shape(NamedTuple):
    """How an array lies as a stream goes through it.

    Attributes:
        name: of it.
        base, nbytes: where it begins, and how long it is.
        item: bytes from one item that is used to the next: all offsets are multiples of it.
        row: bytes from row to row; None where it has no rows.
        loaded: whether it is only loaded.
    """

    name: str
    base: int
    nbytes: int
    item: int
    row: int | None
    loaded: bool
    accesses: tuple[Access, ...]


def shapes(stream: Stream) -> tuple[Shape, ...]:
    """The arrays of a stream of loops, each with what its accesses say of its rows."""
    if stream.program is None or len(stream.owners) != len(stream.spans):
        return ()
    every = [each for loop in stream.program.loops for each in nests.accesses(loop)]
    tiles = {name for loop in stream.program.loops for name in _clipping(loop)}
    found = []
    for name, (base, end) in zip(stream.owners, stream.spans, strict=True):
        own = tuple(each for each in every if stream.arrays[each.reference] == name)
        if not own:
            continue
        offsets = [abs(each.base - base) for each in own]
        steps = {abs(step) for each in own for step in each.strides.values() if step}
        single = {abs(step) for each in own for loop, step in each.strides.items() if step and loop not in tiles}
        item = math.gcd(*offsets, *steps) or own[0].nbytes
        row = next((step for step in sorted(single) if _is_row(step, steps, own)), None)
        loaded = all(each.request == LOAD for each in own)
        found.append(Shape(name, base, end - base, item, row, loaded, own))
    return tuple(found)


def _clipping(loop: Loop) -> set[str]:
    """The loops over tiles, within `loop`."""
    inner = [part for part in loop.body if isinstance(part, Loop)]
    return {name for part in inner for name in _clipping(part)} | ({loop.clip[0]} if loop.clip else set())


def _is_row(step: int, steps: set[int], accesses: Sequence[Access]) -> bool:
    """Whether `step` is one of rows: each longer one is a multiple of it, and shorter ones go along a row."""
    within = [each for each in steps if each < step]
    if not within or any(each % step for each in steps if each > step):
        return False
    return step >= 4 * max(each.nbytes for each in accesses)


def laid_out(stream: Stream, wider: dict[str, int] | None = None, shifts: dict[str, int] | None = None) -> Stream:
    """`stream` with the rows of some arrays `wider` by so many bytes, and arrays begun so many bytes later."""
    wider, shifts = wider or {}, shifts or {}
    held = {shape.name: shape for shape in shapes(stream)}
    bases, spans, end = {}, [], 0
    for name, (first, last) in zip(stream.owners, stream.spans, strict=True):
        shape, nbytes = held.get(name), last - first
        if name in wider and shape is not None and shape.row is not None:
            nbytes += -(-nbytes // shape.row) * wider[name]
        bases[name] = -(-end // PAGE_BYTES) * PAGE_BYTES + shifts.get(name, 0)
        spans.append((bases[name], bases[name] + nbytes))
        end = bases[name] + nbytes

    def changed(part: Loop | Access) -> Loop | Access:
        if isinstance(part, Loop):
            return replace(part, body=tuple(map(changed, part.body)))
        name = stream.arrays[part.reference]
        shape = held[name]
        more = wider.get(name, 0) if shape.row is not None else 0
        row = shape.row or 1

        # A step is along a row or over whole ones; where the first access lies is a row, and a place in it.
        strides = {loop: step + int(step / row) * more for loop, step in part.strides.items()}
        at = part.base - shape.base
        return replace(part, base=bases[name] + at + at // row * more, strides=strides)

    return replace(_over(stream, changed, f"{stream.name}, laid out otherwise"), spans=tuple(spans))


def by_columns(stream: Stream, shape: Shape) -> Stream | None:
    """`stream` with the columns of an array side by side; None where it has no rows of whole items."""
    row, item = shape.row, shape.item
    if row is None or row % item or not shape.loaded:
        return None
    rows = -(-shape.nbytes // row)

    def turned(offset: int) -> int:
        down = int(offset / row)
        return down * item + (offset - down * row) // item * rows * item

    moved = {
        id(each): replace(
            each,
            base=shape.base + turned(each.base - shape.base),
            strides={loop: turned(step) for loop, step in each.strides.items()},
        )
        for each in shape.accesses
    }
    return _with(stream, moved, f"{stream.name}, {shape.name} by columns")


def side_by_side(stream: Stream, shape: Shape) -> Stream | None:
    """`stream` with the items of an array that it uses next to each other; None where they are."""
    size = max(each.nbytes for each in shape.accesses)
    if shape.item < 2 * size:
        return None

    def near(offset: int) -> int:
        return offset // shape.item * size

    moved = {
        id(each): replace(
            each,
            base=shape.base + near(each.base - shape.base),
            strides={loop: near(step) for loop, step in each.strides.items()},
        )
        for each in shape.accesses
    }
    return _with(stream, moved, f"{stream.name}, {shape.name} side by side")


def _with(stream: Stream, moved: dict[int, Access], title: str) -> Stream:
    def changed(part: Loop | Access) -> Loop | Access:
        if isinstance(part, Loop):
            return replace(part, body=tuple(map(changed, part.body)))
        return moved.get(id(part), part)

    return _over(stream, changed, title)
