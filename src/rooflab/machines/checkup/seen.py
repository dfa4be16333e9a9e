"""What a checkup looks at before it judges: the machine, its counters, drivers, conditions and present load."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rooflab.errors import RooflabError
from rooflab.machines.bench.run.background_load import BackgroundLoad, background_load, cpu_time
from rooflab.machines.detect import Host, detect
from rooflab.machines.detect.conditions import Conditions, read_conditions
from rooflab.machines.detect.counters import Counters, read_counters
from rooflab.machines.detect.drivers import Drivers, read_drivers
from rooflab.machines.detect.files import Tree

_LOOKS_S = 0.4  # how long the load of others is watched: forty of the kernel's ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of an environment.

    Attributes:
        system: "Linux", "Darwin" or another.
        host: the machine; None where it could not be told, `no_host` then says why.
        live: whether it is the running machine, not a snapshot.
        load: what others used of the allowed CPUs while the checkup looked.
    """

    system: str
    host: Host | None = None
    no_host: str = ""
    conditions: Conditions = field(default_factory=Conditions)
    counters: Counters = field(default_factory=Counters)
    drivers: Drivers = field(default_factory=Drivers)
    load: BackgroundLoad | None = None
    live: bool = True

    @property
    def linux(self) -> bool:
        """Whether there is anything to ask of Linux's own files."""
        return self.system == "Linux"


def look(
    root: Path = Path("/"), system: str | None = None, sleep: Callable[[float], None] | None = time.sleep
) -> Seen:
    """What is seen in the file system at `root`; on the running machine the load of others is watched as well.

    Without a `sleep` it is not.
    """
    tree = Tree.at(root.resolve())
    system = system or (platform.system() if tree.is_live else "Linux")
    try:
        host, no_host = detect(root, system=system, gpus=tree.is_live), ""
    except RooflabError as error:
        host, no_host = None, str(error)
    cpus = host.allowed_cpus if host is not None else ()
    linux = system == "Linux"
    return Seen(
        system=system,
        host=host,
        no_host=no_host,
        conditions=read_conditions(tree, cpus) if linux else Conditions(),
        counters=read_counters(tree) if linux else Counters(),
        drivers=read_drivers(tree) if linux else Drivers(),
        load=_watched(cpus, sleep) if tree.is_live and linux and sleep is not None else None,
        live=tree.is_live,
    )


def _watched(cpus: tuple[int, ...], sleep: Callable[[float], None]) -> BackgroundLoad | None:
    before = cpu_time(cpus)
    sleep(_LOOKS_S)
    return background_load(before, cpu_time(cpus), len(cpus)) if cpus else None
