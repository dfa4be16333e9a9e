"""Advice for transfers: each gain is that of the transfer written so, and what is as advised is left alone."""

from __future__ import annotations

import msgspec
import pytest

import rooflab

FAR = {"rates": {"s3": "5 GB/s", "PCIe": "63 GB/s"}, "latencies": {"s3": "40 ms"}}


def the(transfer, rule):
    """The advice by that rule; None where it is not given."""
    every = (*transfer.advice.each, *transfer.advice.trades)
    return next((one for one in every if one.rule == rule), None)


def test_pinned_memory_gains_what_the_pinned_transfer_takes():
    pageable, pinned = (
        rooflab.transfer("10 GB", ["PCIe", "HBM"], machine="h200-sxm", host_memory=kind)
        for kind in ("pageable", "pinned")
    )
    one = the(pageable, "pinned")
    assert (one.before_s, one.after_s) == (pageable.time_s, pinned.time_s)
    assert the(pinned, "pinned") is None
    unsaid = rooflab.transfer("10 GB", ["PCIe", "HBM"], machine="h200-sxm")
    assert [line.partition(":")[0] for line in unsaid.advice.unasked] == ["pinned"]


def test_overlap_gains_what_overlapped_stages_take():
    way = {"stages": ["s3", "PCIe"], "chunk": "256 MB", "threads": 16, **FAR}
    serial, overlapped = (rooflab.transfer("100 GB", overlap=overlap, **way) for overlap in (False, True))
    assert the(serial, "overlap-stages").after_s == overlapped.time_s
    assert the(overlapped, "overlap-stages") is None


def test_latency_asks_for_larger_chunks_and_more_requests_at_once():
    small = rooflab.transfer("100 GB", ["s3"], chunk="1 MB", **{key: {"s3": FAR[key]["s3"]} for key in FAR})
    requests, chunks = the(small, "more-requests"), the(small, "larger-chunks")
    # Little's law: 5 GB/s of 1 MB in 40.2 ms want 201 at once; powers of two.
    assert "256 requests" in requests.change
    again = rooflab.transfer(
        "100 GB", ["s3"], chunk="1 MB", threads=256, rates={"s3": "5 GB/s"}, latencies=FAR["latencies"]
    )
    assert requests.after_s == again.time_s
    assert chunks.gain_s > 0
    assert the(again, "more-requests") is None


def test_fewer_bits_are_half_the_bytes_and_twice_the_rate_of_what_binds():
    whole = rooflab.transfer("100 GB", ["s3", "PCIe"], chunk="256 MB", threads=16, **FAR)
    half = rooflab.transfer("50 GB", ["s3", "PCIe"], chunk="256 MB", threads=16, **FAR)
    assert the(whole, "narrower").after_s == half.time_s
    assert the(whole, "narrower").price == "numbers"
    faster = rooflab.transfer(
        "100 GB",
        ["s3", "PCIe"],
        chunk="256 MB",
        threads=16,
        **{**FAR, "rates": {"s3": "10 GB/s", "PCIe": "63 GB/s"}},
    )
    assert the(whole, "faster-stage").after_s == faster.time_s
    packed = the(whole, "compress")
    assert packed.gain_low_s == 0  # how far it shrinks is not known
    assert packed.after_s == pytest.approx(half.time_s, rel=0.02)


def test_a_local_copy_spares_the_network():
    found = rooflab.transfer("150 GB", ["network", "disk", "PCIe"], machine="h200-sxm", threads=4)
    local = rooflab.transfer("150 GB", ["disk", "PCIe"], machine="h200-sxm", threads=4)
    assert the(found, "local-copy").after_s == local.time_s
    assert the(local, "local-copy") is None


def test_a_device_that_never_waits_needs_nothing():
    way = {"machine": "h200-sxm", "sample": "150 kB"}
    fed = rooflab.transfer("150 GB", ["PCIe"], device_samples_per_s=100, **way)
    assert fed.advice.each == fed.advice.trades == ()
    assert fed.advice.unasked == ("all: the device never waits for it",)
    hungry = rooflab.transfer("150 GB", ["disk", "PCIe"], device_samples_per_s=1e6, **way)
    assert any("the device would wait" in line for line in the(hungry, "faster-stage").evidence)


def test_what_was_advised_is_saved_and_read_again(tmp_path):
    found = rooflab.transfer("10 GB", ["PCIe", "HBM"], machine="h200-sxm", host_memory="pageable")
    found.save(tmp_path / "way.json")
    assert rooflab.load(tmp_path / "way.json") == found
    without = rooflab.transfer("10 GB", ["PCIe", "HBM"], machine="h200-sxm", host_memory="pageable", advice=False)
    assert without == msgspec.structs.replace(found, advice=None)


def test_advice_made_is_not_given_again():
    first = rooflab.transfer("100 GB", ["s3"], chunk="1 MB", rates={"s3": "5 GB/s"}, latencies={"s3": "40 ms"})
    again = rooflab.transfer(
        "100 GB", ["s3"], chunk="1 MB", threads=256, rates={"s3": "5 GB/s"}, latencies={"s3": "40 ms"}
    )
    assert first.advice.each[0].gain_share > 0.9
    assert {one.rule for one in again.advice.each} <= {"compress", "larger-chunks", "local-copy"}
