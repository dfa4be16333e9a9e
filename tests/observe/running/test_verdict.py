"""What time, CPU use and faults allow to say: each sentence where it holds, and none where it does not."""

from __future__ import annotations

import pytest

from rooflab.observe.running.verdict import verdict, way_of
from rooflab.types.usage import Meanwhile, Usage


def usage(wall_s=10.0, user_s=9.9, system_s=0.05, **more) -> Usage:
    return Usage(wall_s=wall_s, user_s=user_s, system_s=system_s, **more)


def said(one: Usage, granted: int | None = 8, **meanwhile) -> str:
    return " ".join(verdict(one, granted, Meanwhile(**meanwhile)))


@pytest.mark.parametrize(
    ("user_s", "granted", "way"),
    [
        (0.3, 8, "waiting"),
        (4.9, 8, "waiting"),
        (9.9, 8, "one core"),
        (30.0, 8, "some cores"),
        (76.0, 8, "all cores"),
        (9.9, 1, "one core"),
        (9.9, None, "one core"),
    ],
)
def test_how_the_cores_were_used(user_s, granted, way):
    assert way_of(usage(user_s=user_s, system_s=0.0), granted) == way


def test_waiting_says_how_little_it_ran_and_not_what_for():
    text = said(usage(user_s=0.3, system_s=0.0))
    assert "Waiting: it used 3.0 % of one core" in text  # 0.3 s of CPU in 10 s
    assert "do not say" in text


def test_one_thread_of_eight_cores():
    assert "As much as one thread can: 1.00 cores of 8 granted; 7 more cores" in said(usage(user_s=9.95))


def test_all_cores_does_not_say_what_bound_them():
    assert "only counters say" in said(usage(user_s=79.0))


def test_time_in_the_kernel_with_faults_has_a_price_each_and_without_is_system_calls():
    # 3 of 9 s in the kernel, 1,000,000 faults: 3 µs each at most.
    assert "3.00 µs each" in said(usage(user_s=6.0, system_s=3.0, minor_faults=1_000_000))
    assert "system calls did" in said(usage(user_s=6.0, system_s=3.0, minor_faults=10))
    assert "In the kernel" not in said(usage(user_s=9.0, system_s=0.5, minor_faults=1_000_000))


def test_what_disturbed_it():
    assert "Other programs used 1.50 cores" in said(usage(), others_cpu_s=15.0)
    assert "Other programs" not in said(usage(), others_cpu_s=0.5)
    assert "CPU quota" in said(usage(), throttled_s=4.0)
    assert "hypervisor gave 1.00 s" in said(usage(), stolen_s=1.0)
    assert "made to give way" in said(usage(involuntary_switches=100_000))


def test_a_command_of_a_few_milliseconds_is_not_judged():
    short = usage(wall_s=0.004, user_s=0.001, system_s=0.002, involuntary_switches=50)
    assert said(short, others_cpu_s=10.0) == (
        "Too short to say how it used the cores: 4.00 ms, most of which is starting."
    )
