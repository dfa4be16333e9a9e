"""What the tests of loops share: a cache folder of their own, small caches, arguments understood."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from rooflab.types.simulation import Cache

HERE = Path(__file__).parent


def _load(name):
    # The modules beside the tests: pytest's importlib mode does not put their folder on the path.
    full = f"loops_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, HERE / f"{name}.py")
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def kernels():
    return _load("kernels")


@pytest.fixture(scope="session")
def oracle():
    return _load("oracle")


@pytest.fixture(scope="session")
def small():
    """Three levels so small that tiny loops overflow them."""
    return (Cache(256, 2, 64, name="L1"), Cache(1024, 4, 64, name="L2"), Cache(2048, 4, 64, name="L3"))


@pytest.fixture(scope="session")
def guest(root):
    """A measured machine: this project's Zen 4 guest."""
    import rooflab

    return rooflab.machine(root / "examples" / "zen4-guest.toml")
