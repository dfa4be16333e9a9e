"""Each rule on a profile made for it: it speaks where it should, with the numbers, and is silent elsewhere."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.model.diagnosis.rules import RULES, diagnose
from rooflab.model.roofline.counted import place
from rooflab.types.counted import Access, Counted
from rooflab.types.finding import Finding
from rooflab.types.machine import Machine
from rooflab.types.prediction import Prediction
from rooflab.types.profile import KernelTime, Observation, Profile, ProfileRow
from rooflab.types.timeline import DeviceTime, Idle, Timeline
from rooflab.types.trace import Device
from rooflab.types.work import Cost, Flop, Traffic, TrafficBasis

H200 = rooflab.machine("h200-sxm")


def counted(name="kernel", time_s=1e-3, flop=None, dram=None, basis: TrafficBasis = "counted", **more) -> Counted:
    traffic = () if dram is None else (Traffic("DRAM", dram, 0.0, basis),)
    return Counted(name=name, time_s=time_s, flop=flop, traffic=traffic, **more)


def row(one: Counted, machine: Machine | None = H200, **more) -> ProfileRow:
    assert one.time_s is not None
    observation = Observation(
        time_s=one.time_s,
        low_s=one.time_s,
        high_s=one.time_s,
        kernels=(KernelTime(name=one.name, runs=1, time_s=one.time_s),),
    )
    return ProfileRow(
        name=one.name,
        kind=None,
        shapes="",
        dtype="",
        executions=1,
        observation=observation,
        counted=one,
        placement=None if machine is None else place(one, machine, "9.0"),
        **more,
    )


def findings(*rows: ProfileRow, machine: Machine | None = H200, **more) -> dict[str, Finding]:
    profile = Profile(name="profile", source="test", rows=rows, machine=machine, **more)
    return {one.rule: one for one in diagnose(profile)}


def test_rules_have_names_of_their_own():
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_kernel_under_its_roofs_is_not_doubted():
    # 4.0 GB in 1 ms are 4.0 of 4.8 TB/s.
    assert findings(row(counted(flop=(Flop("vector", "fp32", 1e9),), dram=4.0e9))) == {}


def test_a_time_shorter_than_any_kernel_is_no_time():
    # Case A39: conv2d on an RTX 2080 Ti in 154 ns, 18,874,368 FLOP and 8,388,608 bytes: 101 times the bandwidth.
    machine = rooflab.machine("rtx-2080-ti")
    one = counted(time_s=154e-9, flop=(Flop("vector", "fp32", 18_874_368),), dram=8_388_608, basis="accessed")
    found = findings(row(one, machine), machine=machine)["missing synchronisation"]
    assert "154 ns" in found.says
    assert found.kind == "doubt"
    assert "synchronise" in found.hint


def test_arrays_that_fit_in_a_cache_say_nothing_of_memory():
    # Case A33: RTX 4060 Ti, 288 GB/s and 32 MiB of L2: 4 arrays of 8 MiB at 968 GB/s are 336 % of it.
    machine = rooflab.machine("rtx-4060-ti")
    nbytes = 4 * 8 * 2**20
    one = counted(time_s=nbytes / 968e9, flop=(Flop("vector", "fp64", 2 * 2**20),), dram=nbytes, basis="accessed")
    found = findings(row(one, machine), machine=machine)["cache-resident"]
    assert found.evidence["share"] == pytest.approx(3.36, abs=0.01)
    # Bytes that were counted at the memory did pass it: another reason is looked for.
    same = msgspec.structs.replace(one, traffic=(Traffic("DRAM", nbytes, 0.0, "counted"),))
    assert "above roof" in findings(row(same, machine), machine=machine)


def test_bytes_that_a_program_asks_for_are_no_speed_of_memory():
    """Case A37's kind: 121 % of a card's bandwidth by bytes of the reference code, not by those moved."""
    one = counted(flop=(Flop("vector", "fp64", 1e9),), dram=1.21 * 4.8e9, basis="modelled")
    found = findings(row(one))["modelled bytes"]
    assert found.evidence["share"] == pytest.approx(1.21)
    assert "modelled bytes" not in findings(row(counted(flop=(), dram=1.21 * 4.8e9)))


def test_a_boost_clock_is_named_with_the_clock_that_was_measured():
    # fp32 of an H200: 132 SMs x 128 x 2 x 1.98 GHz = 66.9 TFLOP/s; at 2.3 GHz 77.7.
    one = counted(flop=(Flop("vector", "fp32", 77.7e9),), access=Access(clock_hz=2.3e9))
    found = findings(row(one))["boost clock"]
    assert found.evidence["share"] == pytest.approx(77.7 / 66.9, rel=1e-3)
    assert "2.30 GHz" in found.says


def test_twice_a_matrix_peak_is_the_sparse_one():
    # bf16 dense 989.5 TFLOP/s; a count of 1.9e12 in 1 ms is what 2:4 sparsity reaches.
    assert "sparse peak" in findings(row(counted(flop=(Flop("matrix", "bf16", 1.9e12),))))
    assert "sparse peak" not in findings(row(counted(flop=(Flop("matrix", "bf16", 0.9e12),))))


def test_a_peak_that_is_twice_what_the_device_counts_is_sparse():
    # 4096 a clock and SM, 132 SMs, as Nsight Compute calls the dense peak of a Hopper card.
    name = "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum.peak_sustained"
    one = counted(dram=1e9, metrics={name: 4096 * 132})
    doubled = msgspec.structs.replace(
        H200,
        peaks=tuple(
            msgspec.structs.replace(rate, value=2 * rate.value) if rate.dtype == "bf16" else rate
            for rate in H200.peaks
        ),
    )
    assert "sparse peak" in findings(row(one, doubled), machine=doubled)
    assert "sparse peak" not in findings(row(one))


def test_another_card_than_the_file_names():
    one = row(counted(dram=1e9))
    assert "NVIDIA H200" in findings(one, device=Device(number=0, name="NVIDIA H100 80GB HBM3"))["wrong card"].says
    assert "wrong card" not in findings(one, device=Device(number=0, name="NVIDIA H200"))
    assert "60 SMs" in findings(one, device=Device(number=0, compute_units=60))["wrong card"].says
    assert "memory" in findings(one, device=Device(number=0, memory_bytes=80e9))["wrong card"].says


def test_a_card_is_known_by_its_bus_and_clock():
    """Case A26: 6144 bit at 3186 MHz, twice a clock, are 4893.7 GB/s: an H200, whatever it is called."""
    metrics = {"dram__bytes.sum.peak_sustained": 6144 / 8 * 2, "dram__cycles_elapsed.avg.per_second": 3186e6}
    one = counted(dram=1e9, metrics=metrics)
    h100 = rooflab.machine("h100-sxm")
    found = findings(row(one, h100), machine=h100)["wrong card"]
    assert found.evidence["bytes_per_s"] == pytest.approx(4893.7e9, rel=1e-4)
    assert "wrong card" not in findings(row(one))


def test_over_100_percent_is_said_and_not_clipped():
    found = findings(row(counted(dram=1e9, access=Access(hit_rates={"L2": 1.0039}))))["over 100 %"]
    assert "100.39 %" in found.says


def test_a_low_clock_is_a_cause():
    # Nsight Compute locks the clock: 1.59 GHz of 1.98 are 1.25 times less.
    found = findings(row(counted(dram=1e9, access=Access(clock_hz=1.59e9))))["clock"]
    assert (found.kind, "1.25 times" in found.says) == ("cause", True)


@pytest.mark.parametrize(
    ("rule", "access"),
    [
        ("uncoalesced", Access(load_use=0.125)),
        ("uncoalesced", Access(store_use=0.25)),
        ("bank conflicts", Access(shared_wavefronts=100.0, shared_conflicts=31.0)),
    ],
)
def test_accesses(rule, access):
    assert rule in findings(row(counted(dram=4e9, access=access)))
    good = Access(load_use=1.0, store_use=0.9, shared_wavefronts=100.0, shared_conflicts=1.0)
    assert rule not in findings(row(counted(dram=4e9, access=good)))


def test_traffic_against_what_is_asked_for():
    cost = Cost(flop=(), compulsory=Traffic("memory", 1e9, 0.0, "compulsory"))
    assert findings(row(counted(dram=3e9), cost=cost))["amplification"].evidence["amplification"] == 3.0
    assert "cache-resident" in findings(row(counted(dram=0.2e9), cost=cost))
    neither = findings(row(counted(dram=1.1e9), cost=cost))
    assert not {"amplification", "cache-resident"} & set(neither)


def test_few_blocks_far_from_every_roof():
    one = counted(
        flop=(Flop("vector", "fp32", 1e9),),
        dram=1e8,
        grid=(40,),
        access=Access(occupancy=0.1, limited_by="registers"),
    )
    found = findings(row(one))["far from every roof"]
    assert "40 blocks on 132 SMs" in found.says
    assert "limited by registers" in found.says


def test_a_device_that_waits_for_its_launches():
    idle = Idle(cause="launches", seconds=8e-3, gaps=90, longest_s=1e-3, at_s=0.0, before="void f<int>(int)")
    device = DeviceTime(
        device=0,
        span_s=10e-3,
        busy_s=2e-3,
        kernels_s=2e-3,
        kernels=91,
        compute_s=2e-3,
        copy_s=0.0,
        collective_s=0.0,
        exposed_copy_s=0.0,
        exposed_collective_s=0.0,
        idle=(idle,),
    )
    found = findings(timeline=Timeline(devices=(device,)))["idle"]
    assert "80 %" in found.says
    assert found.time_s == 8e-3


def test_below_the_floor_and_above_the_bar():
    def predicted(time_s: float, floor_s: float) -> Prediction:
        return Prediction(
            time_s=time_s,
            low_s=0.8 * time_s,
            high_s=1.2 * time_s,
            floor_s=floor_s,
            compute_s=time_s,
            memory_s={},
            overhead_s=0.0,
            bound="compute-bound",
            binds="bf16 matrix",
        )

    one = counted()  # 1 ms
    assert "below floor" in findings(row(one, prediction=predicted(2e-3, 1.5e-3)))
    assert findings(row(one, prediction=predicted(0.5e-3, 0.4e-3)))["slower than predicted"].time_s == 0.5e-3
    assert findings(row(one, prediction=predicted(1e-3, 0.4e-3))) == {}
