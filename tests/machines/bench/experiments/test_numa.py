"""Memory of other nodes: how much of it is read, and a run on a machine that says it has two nodes."""

from __future__ import annotations

import pytest

from rooflab.machines.bench.experiments.numa import measure_remote, working_set
from rooflab.machines.detect import Cpu, Host
from rooflab.units import GIB, MIB
from support.machines.workshop import Workshop


@pytest.mark.parametrize(
    ("last_cache_bytes", "allowed_bytes", "expected"),
    [
        (32 * MIB, GIB, 64 * MIB),  # twice the cache
        (0, GIB, 64 * MIB),  # no cache reported
        (105 * MIB, GIB, 210 * MIB),  # 64 MiB would lie in the cache of a Xeon 8480+
        (504 * MIB, GIB, 512 * MIB),  # a Xeon 6980P: said in the link's note
        (105 * MIB, 100 * MIB, 100 * MIB),  # little memory granted
    ],
)
def test_the_working_set_lies_beyond_the_last_cache(
    last_cache_bytes: int, allowed_bytes: int, expected: int
) -> None:
    assert working_set(last_cache_bytes, allowed_bytes) == expected


def two_nodes(cpus: tuple[int, ...]) -> Host:
    return Host(
        name="test",
        cpus=tuple(Cpu(number=cpu, node=node, siblings=(cpu,)) for node, cpu in enumerate(cpus)),
        allowed_cpus=cpus,
    )


def test_each_node_is_read_from_each(workshop: Workshop) -> None:
    if len(workshop.cpus) < 2:
        pytest.skip("one CPU is granted: there is one node")
    form = next(form for form in workshop.streams if form.row.name == "read")
    found = measure_remote(workshop.bench, two_nodes(workshop.cpus), workshop.cpus, form, 32 * MIB, 4 * MIB)
    assert [(one.node, one.home) for one in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for one in found:
        assert one.working_set == 4 * MIB
        assert not one.beyond_cache
        assert min(*one.read.values, *one.loads.values) > 0


def test_one_node_needs_no_reading(workshop: Workshop) -> None:
    cpus = workshop.cpus[:1]
    assert measure_remote(workshop.bench, two_nodes(cpus), cpus, workshop.streams[0], 0, 4 * MIB) == []
