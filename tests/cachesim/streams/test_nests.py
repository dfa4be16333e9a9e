"""Short cuts through loop nests change no count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.cachesim.run.streams import simulate_stream
from rooflab.cachesim.streams import dense, nests
from rooflab.cachesim.streams.nests import Access, Loop
from rooflab.cachesim.streams.stream import Stream
from rooflab.types.simulation import Cache

SMALL = (Cache(512, 2), Cache(2048, 4), Cache(8192, 4))
STREAMS = [
    dense.sequential(1 << 16),
    dense.sequential(1 << 12, passes=9),
    dense.strided(1 << 16, 24),
    dense.triad(5000),
    dense.copy(3000, stores="nontemporal"),
    *(dense.matmul(24, order=order) for order in dense.ORDERS),
    *(dense.matmul(20, order=order, tile=8, registers=False) for order in dense.ORDERS),
    dense.matmul(10, m=7, k=13, tile=4),
    dense.matmul(64),
    dense.matmul(64, order="jki"),
    dense.transpose(64),
    dense.transpose(50, m=30, tile=8),
    dense.stencil2d(64),
    dense.stencil2d(32, m=200),
    dense.stencil2d(32, sweeps=7),
    dense.stencil3d(16),
    dense.attention(40, 8),
    dense.attention(40, 8, tile=16),
]
LEVELS = {
    "lru": SMALL,
    "fifo": tuple(Cache(each.capacity_bytes, each.ways, policy="fifo") for each in SMALL),
    "plru": tuple(Cache(each.capacity_bytes, each.ways, policy="plru") for each in SMALL),
    "inclusive": (SMALL[0], Cache(2048, 4, inclusion="inclusive"), Cache(8192, 4, inclusion="inclusive")),
    "exclusive": (SMALL[0], Cache(2048, 4, inclusion="exclusive")),
    "next line": (Cache(512, 2, prefetch=("next-line",)), SMALL[1]),
    "write-through": (Cache(512, 2, write_back=False), SMALL[1]),
    "odd sets": (Cache(384, 2), Cache(11 * 256, 4)),
    "xor": (Cache(512, 2, index="xor"), SMALL[1]),
    "roomy": (SMALL[0], Cache(4096, 8), Cache(1 << 20, 16)),
    "roomy, odd": (Cache(1024, 1), Cache(1 << 20, 16, 128)),
    "qlru": (SMALL[0], Cache(2048, 4, policy="qlru_h11_m1_r0_u0")),
    "random": (Cache(512, 2, policy="random"), SMALL[1]),
}
COMPILED = ("fifo", "plru", "qlru", "random")  # each a function of its own; the others differ in flags


def _marked(name):
    return pytest.param(LEVELS[name], id=name, marks=[pytest.mark.slow] if name in COMPILED else [])


@pytest.mark.parametrize("levels", [_marked(name) for name in LEVELS])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_short_cuts_count_what_every_access_counts(stream, levels):
    short, long = simulate_stream(stream, levels), simulate_stream(stream, levels, exact=True)
    assert short.levels == long.levels


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_a_stream_makes_the_accesses_that_it_says(stream):
    # one word a line: no access crosses a line, so that requests are accesses
    found = simulate_stream(stream, [Cache(8192, 4)])
    streamed = sum(count for count in [nests.count(loop) for loop in stream.program.loops]) - stream.accesses
    stores = stream.accesses // 2 if "copy" in stream.name else 0  # past the caches: no request
    assert (found.levels[0].requests, streamed) == (stream.accesses - stores, 0)


@st.composite
def random_nests(draw):
    """Up to three loops around a few references to two arrays, with any strides; some in outer loops alone."""
    extents = {name: draw(st.integers(1, 20)) for name in "ijk"[: draw(st.integers(1, 3))]}
    stride = st.sampled_from([0, 0, 4, 8, 8, 24, 64, 128, 512, -8, -64])
    span = 1 << 16
    # What the outermost loop moves each array by: where all references agree it may be fast-forwarded.
    outer = [draw(st.sampled_from([None, 0, 8, 64, -64])) for _ in range(2)]
    references = []
    for number in range(draw(st.integers(1, 10))):
        moves = {name: draw(stride) for name in extents}
        array = draw(st.integers(0, 1))
        moves["i"] = moves["i"] if outer[array] is None else outer[array]
        base = span * array + span // 2 + draw(st.integers(0, 64)) * 8
        references.append(
            Access(number, base, moves, draw(st.sampled_from([4, 8])), draw(st.sampled_from([0, 0, 1])))
        )
    body = tuple(references)
    for name in reversed(extents):
        body = (Loop(name, extents[name], body),)
        if name != "i" and len(references) < 10 and draw(st.booleans()):
            moves = {each: draw(stride) for each in extents if each < name}
            references.append(Access(len(references), span // 2, moves, 8, draw(st.sampled_from([0, 1]))))
            body = (*body, references[-1])
    names = tuple(f"r{number}" for number in range(10))
    accesses = nests.count(body[0])
    spans = ((0, span), (span, 2 * span))
    return Stream("random nest", names, names, spans, accesses, 0, nests.Program(body))


@pytest.mark.slow
@pytest.mark.parametrize(
    "levels",
    [LEVELS[name] for name in ("lru", "plru", "inclusive", "roomy", "roomy, odd", "qlru", "write-through")],
    ids=["lru", "plru", "inclusive", "roomy", "roomy, odd", "qlru", "write-through"],
)
@given(stream=random_nests())
@settings(max_examples=300)
def test_any_nest(levels, stream):
    short, long = simulate_stream(stream, levels), simulate_stream(stream, levels, exact=True)
    assert short.levels == long.levels
