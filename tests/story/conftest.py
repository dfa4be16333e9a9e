"""What tests of the public functions share: a machine that may be this one."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.machines.detect import detect, granted_cores
from rooflab.types.machine import Source


@pytest.fixture(scope="module")
def here():
    """A machine that may be this one: its name and its cores, with another's rates."""
    host = detect(gpus=False)
    return msgspec.structs.replace(
        rooflab.machine("epyc-9654"),
        name=host.name,
        aliases=(),
        environment={},
        compute_units=len(granted_cores(host)),
        source=Source("measured", "a test"),
    )
