"""Caches as they are written on a command line."""

from __future__ import annotations

import pytest

from rooflab.cli import stream_names
from rooflab.errors import RooflabError
from rooflab.types.simulation import Cache


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("32KiB/8", Cache(32768, 8)),
        ("8KiB/full/128", Cache(8192, None, 128)),
        ("32KiB/8,plru", Cache(32768, 8, policy="plru")),
        ("32KiB/8/64,fifo,write-through,no-allocate", Cache(32768, 8, 64, "fifo", False, False)),
        (
            "32KiB/8,no-fetch,xor,inclusive",
            Cache(32768, 8, fetch_on_write=False, index="xor", inclusion="inclusive"),
        ),
        ("32KiB/8/128,sector=32", Cache(32768, 8, 128, sector_bytes=32)),
        ("32KiB/8,stride,ahead=3,adjacent", Cache(32768, 8, prefetch=("stride", "adjacent"), prefetch_ahead=3)),
        ("32KiB/8,random,seed=7", Cache(32768, 8, policy="random", seed=7)),
        ("32KiB/8,qlru_h21_m1_r1_u2", Cache(32768, 8, policy="qlru_h21_m1_r1_u2")),
        ("32KiB/8,srrip", Cache(32768, 8, policy="qlru_h00_m2_r0_u0_umo")),
    ],
)
def test_what_a_cache_is_follows_its_sizes(text, wanted):
    assert stream_names.cache(text) == wanted


def test_what_is_said_of_one_cache_goes_before_what_is_said_of_all():
    assert stream_names.cache("32KiB/8,fifo", policy="plru").policy == "fifo"
    assert stream_names.cache("32KiB/8,xor", policy="plru").policy == "plru"
    both = stream_names.cache("32KiB/8,stride,adjacent", prefetch=("next-line",))
    assert both.prefetch == ("next-line", "stride", "adjacent")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("32KiB/8,write-thru", r"write-thru.*did you mean write-through"),
        ("32KiB/8,lru,fifo", "policy is said twice; leave one of them out"),
        ("32KiB/8,sector=ten", "ten"),
        ("32KiB/8,sectors=32", "sectors=32"),
        ("32KiB/8,", "setting of level"),
        ("32KiB,plru", "not CAPACITY/WAYS"),
        ("32KiB/8,qlru_h99", "qlru_h99"),
        ("32KiB/8/64,sector=48", "power of two"),
    ],
)
def test_a_cache_that_cannot_be_is_said_in_a_line(text, said):
    with pytest.raises(RooflabError, match=said) as raised:
        stream_names.cache(text)
    assert "\n" not in str(raised.value)
