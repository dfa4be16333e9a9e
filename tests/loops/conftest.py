"""What the tests of loops share: small caches, arguments understood."""

from __future__ import annotations

import pytest

from rooflab.types.simulation import Cache
from support.loops import kernels as loop_kernels
from support.loops import oracle as loop_oracle


@pytest.fixture(scope="session")
def kernels():
    return loop_kernels


@pytest.fixture(scope="session")
def oracle():
    return loop_oracle


@pytest.fixture(scope="session")
def small():
    """Three levels so small that tiny loops overflow them."""
    return (Cache(256, 2, 64, name="L1"), Cache(1024, 4, 64, name="L2"), Cache(2048, 4, 64, name="L3"))


@pytest.fixture(scope="session")
def guest(root):
    """A measured machine: this project's Zen 4 guest."""
    import rooflab

    return rooflab.machine(root / "examples" / "zen4-guest.toml")
