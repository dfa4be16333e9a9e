"""One workshop, shared by all tests that run kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.machines import workshop as workshops
from support.machines.workshop import Workshop


@pytest.fixture(scope="session")
def workshop() -> Iterator[Workshop]:
    with workshops.opened() as shop:
        yield shop
