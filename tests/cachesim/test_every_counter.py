"""The compiled simulator counts what the plain one counts: every counter, every policy, every mode."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.cachesim.level import hierarchy, plain_kinds
from rooflab.cachesim.run import replay
from rooflab.types.simulation import Cache, tlb
from support.cachesim.hierarchy_oracle import Level

KINDS = ("compulsory", "capacity", "conflict")
PLAIN = ("hits", "misses", "evictions", "writebacks", "read_bytes", "write_bytes", "invalidations", "prefetches")
FIELDS = PLAIN + KINDS
OPS = ("load", "store", "stream")
QLRU = [
    f"qlru_h{h}_m{m}_r{r}_u{u}{umo}"
    for h in ("00", "10", "11", "20", "21")
    for m in range(4)
    for r in range(3)
    for u in range(4)
    for umo in ("", "_umo")
    if not (r != 1 and u > 1)
]


def by_oracle(levels, tlbs, trace):
    """Every counter of every level and TLB after `trace`, by the oracle."""
    chains = []
    for caches in (levels, tlbs):
        chain = [None]
        for cache in reversed(caches):
            chain.append(Level(cache, chain[-1]))
        chains.append(chain[:0:-1])
    caches, buffers = chains
    unit = levels[0].unit_bytes
    for op, address, nbytes, reference in trace:
        end = address + nbytes
        for level in caches + buffers:
            level.reference = reference
        if buffers:
            page = tlbs[0].line_bytes
            for each in range(address // page, (end - 1) // page + 1):
                buffers[0].ask("load", each * page, 1)
        for each in range(address // unit, (end - 1) // unit + 1):
            first, last = max(address, each * unit), min(end, each * unit + unit)
            if OPS[op] == "stream":
                caches[0].stream(first, last - first)
            else:
                caches[0].ask(OPS[op], first, last - first)
    return [{field: level.n[field] for field in FIELDS} for level in caches + buffers]


def compiled(levels, tlbs, trace, classify=True, address_end=None):
    units = 4 * len(trace) * 64 if classify else None
    built = hierarchy.build(levels, tlbs=tlbs, references=("a", "b", "c"), units=units, address_end=address_end)
    columns = [np.array([each[k] for each in trace], np.int64) for k in range(4)]
    replay.replay(built.address, *columns)
    found = built.result("trace")
    return [{field: getattr(level, field) for field in FIELDS} for level in (*found.levels, *found.tlbs)]


traces = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 1, 2]),
        st.one_of(st.integers(0, 40).map(lambda n: n * 64), st.integers(0, 3000), st.integers(0, 1 << 20)),
        st.sampled_from([1, 4, 8, 8, 32, 100]),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=120,
)


WAYS = {"lru": [1, 3, 40], "fifo": [2, 40], "random": [3]}  # few widths, so that little is compiled; 40 is hashed


@st.composite
def caches(draw, near=None):
    """A small cache that fits behind `near`, in any policy and mode."""
    either, one_of = st.booleans(), st.sampled_from
    policy = draw(one_of(["lru", "lru", "fifo", "plru", "random", draw(one_of(QLRU))]))
    ways, sets = draw(one_of(WAYS.get(policy, [4]))), draw(one_of([1, 2, 3, 4, 5, 8]))
    line = draw(one_of([32, 64, 128]))
    index, seed = draw(one_of(["modulo", "xor"])), draw(st.integers(0, 1 << 40))
    if near is not None and not near.sector_bytes and draw(either) and draw(either):
        size = sets * ways * near.line_bytes
        return Cache(size, ways, near.line_bytes, policy, inclusion="exclusive", index=index, seed=seed)
    line = max(line, near.line_bytes if near else 1)
    sector = max(line // draw(one_of([1, 2, 4])), near.unit_bytes if near else 1)
    return Cache(
        sets * ways * line,
        ways,
        line,
        policy,
        write_back=draw(either),
        write_allocate=draw(either),
        fetch_on_write=draw(either),
        inclusion="non-inclusive" if near is None else draw(one_of(["non-inclusive", "inclusive"])),
        sector_bytes=draw(one_of([None, sector])),
        index=index,
        prefetch=tuple(draw(st.lists(one_of(["next-line", "adjacent", "stride"]), unique=True))),
        prefetch_ahead=draw(st.integers(1, 3)),
        seed=seed,
    )


@st.composite
def hierarchies(draw):
    made = [draw(caches())]
    for _ in range(draw(st.integers(0, 2))):
        made.append(draw(caches(made[-1])))
    return made


@pytest.mark.slow
def test_a_store_that_stays_outside_is_the_newest_where_misses_are_classified():
    # Lines 2 3, then stores of 0 1, which go past; 3, 2: since line 0 three others were asked for. It comes again.
    levels = [Cache(384, 3, 128, write_back=False, write_allocate=False)]
    trace = [(op, line * 128, 8, 0) for op, line in ((0, 2), (0, 3), (1, 0), (1, 1), (0, 3), (1, 2), (1, 0))]
    found = compiled(levels, [], trace)
    assert found == by_oracle(levels, [], trace)
    assert (found[0]["capacity"], found[0]["conflict"]) == (1, 0)


@pytest.mark.slow
@given(levels=hierarchies(), trace=traces, buffers=st.integers(0, 2))
@settings(max_examples=400)
def test_every_counter_equals_the_oracles(levels, trace, buffers):
    tlbs = [tlb(2), tlb(8, 4)][:buffers]
    assert compiled(levels, tlbs, trace) == by_oracle(levels, tlbs, trace)


@pytest.mark.slow
@given(levels=hierarchies(), trace=traces)
@settings(max_examples=400)
def test_without_classification_the_rest_is_the_same(levels, trace):
    # The first level has a last-line slot for each set here, and only one above: another path.
    wanted = by_oracle(levels, [], trace)
    found = compiled(levels, [], trace, classify=False)
    for one, other in zip(found, wanted, strict=True):
        assert {f: one[f] for f in PLAIN} == {f: other[f] for f in PLAIN}


COMPILED_LONG = ("fifo", "random", "qlru_h11_m1_r0_u0")
POLICIES = ["lru", "plru", *(pytest.param(name, marks=pytest.mark.slow) for name in COMPILED_LONG)]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@given(trace=traces, repeats=st.integers(1, 4))
@settings(max_examples=100)
def test_plain_write_back_levels(policy, trace, repeats):
    levels = [Cache(1024, 4, 64, policy), Cache(4096, 4, 64, policy, inclusion="inclusive")]
    trace = trace * repeats
    found, wanted = compiled(levels, [], trace, classify=False), by_oracle(levels, [], trace)
    for one, other in zip(found, wanted, strict=True):
        assert {f: one[f] for f in PLAIN} == {f: other[f] for f in PLAIN}


FUSED = ([5], [8], [6, 16], [8, 12], [8, 6, 16], [5, 8, 12])  # few, so that little is compiled


@st.composite
def plain_hierarchies(draw):
    """Levels that are fused, one to three: LRU, write-back, a mask as index; ways that fill their lanes or not."""
    line, first, ways = (
        draw(st.sampled_from([32, 64])),
        st.sampled_from([1, 2, 4, 8]),
        draw(st.sampled_from(FUSED)),
    )
    # Behind the first level the number of sets is any; where it is no power of two, it is so for all.
    sets = draw(st.sampled_from([first, st.sampled_from([3, 5, 11])]))
    numbers = [draw(first), *[draw(sets) for _ in ways[1:]]]
    return [Cache(number * way * line, way, line) for number, way in zip(numbers, ways, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [False, True])
@given(levels=plain_hierarchies(), trace=traces, repeats=st.integers(1, 4))
@settings(max_examples=600)
def test_fused_levels_count_what_the_oracle_counts(narrow, levels, trace, repeats):
    assert plain_kinds.is_plain(levels)
    trace = [*trace, *trace[::-1]] * repeats
    if narrow:  # entries of 32 bits know loads and stores alone
        trace = [(op & 1, *rest) for op, *rest in trace]
    found = compiled(levels, [], trace, classify=False, address_end=1 << 22 if narrow else None)
    for one, other in zip(found, by_oracle(levels, [], trace), strict=True):
        assert {f: one[f] for f in PLAIN} == {f: other[f] for f in PLAIN}


@pytest.mark.slow
def test_entries_are_narrow_where_addresses_are_small_and_levels_plain():
    small, tall = [Cache(1024, 8, 64)], [Cache(1024, 16, 32)]  # 16 entries of 4 bytes are longer than a line of 32
    assert hierarchy.build(small, address_end=64 << 30).narrow
    for levels, address_end in ((small, (64 << 30) + 1), (small, None), (tall, 1), ([Cache(1024, 4, 64)], 1)):
        assert not hierarchy.build(levels, address_end=address_end).narrow
