"""Rules about the time in which a device waits: gaps and copies that could go, each with what would be left."""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.model.program.pauses import between_kernels_s
from rooflab.remedies.profiles.case import Change, Saving, Unasked
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile
from rooflab.types.setting import Setting
from rooflab.types.timeline import DeviceTime, Idle
from rooflab.types.trace import ON_HOST
from rooflab.units import duration

Found = Iterator[Change | Unasked]
_PAUSE_S = 1.5e-6  # between kernels of a graph, where the machine is not known: H100 and H200 0.9 to 1.5 µs


def busiest(profile: Profile) -> DeviceTime | None:
    """The device whose time is the longest, the host left out; None where nothing but the host ran."""
    devices = [one for one in profile.timeline.devices if one.device != ON_HOST and one.span_s > 0]
    return max(devices, key=lambda one: one.span_s, default=None)


def launches(profile: Profile) -> Found:
    """Kernels replayed as a graph, or fewer of them, where the device waits for launches."""
    idle, device = _idle(profile, "launches"), busiest(profile)
    if idle is None or device is None:
        return
    yield Change(
        rule="graph",
        evidence=(
            _gaps(idle, device),
            f"{device.kernels:,} kernels, {duration(device.kernels_s / max(1, device.kernels))} each on average",
            "taken out: these gaps alone, a pause left for each; kernels that a compiler fuses are not counted",
        ),
        saving=_without(profile, idle),
    )


def synchronisation(profile: Profile) -> Found:
    """Fewer waits of the host for the device, which then stands idle until it is fed again."""
    idle, device = _idle(profile, "synchronisation"), busiest(profile)
    if idle is not None and device is not None:
        yield Change(
            rule="synchronise-less",
            evidence=(_gaps(idle, device),),
            saving=_without(profile, idle),
        )


def loader(profile: Profile) -> Found:
    """Batches prepared ahead, where the device waits for data."""
    idle, device = _idle(profile, "data loader"), busiest(profile)
    if idle is not None and device is not None:
        yield Change(
            rule="prefetch-data",
            evidence=(_gaps(idle, device), "an upper bound: as if the workers kept up"),
            saving=_without(profile, idle)._replace(low_s=0.0),
        )


def copies(profile: Profile) -> Found:
    """Copies from pinned memory beside the kernels, where nothing computes meanwhile."""
    device, idle = busiest(profile), _idle(profile, "copy", least=0.0)
    if device is None:
        return
    waits_s = 0.0 if idle is None else idle.seconds
    exposed_s = device.exposed_copy_s + waits_s
    if exposed_s <= 0:
        return
    # Beside each other, kernels and copies take as long as the longer of both.
    most_s = max(0.0, device.span_s - waits_s - max(device.compute_s, device.copy_s))
    saved_s = min(exposed_s, most_s)
    yield Change(
        rule="overlap-copies",
        evidence=(
            f"nothing computes beside {duration(device.exposed_copy_s)} of {duration(device.copy_s)} of copies"
            + (f"; the device waits {duration(waits_s)} more for the host to begin them" if waits_s else ""),
            "an upper bound: as if every copy found kernels to run beside",
        ),
        saving=Saving(saved_s, 0.0, saved_s),
    )


def collectives(profile: Profile) -> Found:
    """Collectives beside the kernels, where nothing computes meanwhile."""
    device = busiest(profile)
    if device is None or device.exposed_collective_s <= 0:
        return
    other_s = max(device.compute_s, device.collective_s)
    saved_s = min(device.exposed_collective_s, max(0.0, device.busy_s - other_s))
    yield Change(
        rule="overlap-collectives",
        evidence=(
            f"nothing computes beside {duration(device.exposed_collective_s)} of "
            f"{duration(device.collective_s)} of collectives",
            "an upper bound: as if every one found kernels to run beside; they slow each other down",
        ),
        saving=Saving(saved_s, 0.0, saved_s),
    )


def _idle(profile: Profile, cause: str, least: float = 1e-9) -> Idle | None:
    device = busiest(profile)
    if device is None:
        return None
    return next((one for one in device.idle if one.cause == cause and one.seconds > least), None)


def _gaps(idle: Idle, device: DeviceTime) -> str:
    return (
        f"the device stood idle for {duration(idle.seconds)} of {duration(device.span_s)} in {idle.gaps:,} gaps, "
        f"the longest {duration(idle.longest_s)} before {short_name(idle.before)}"
    )


def _without(profile: Profile, idle: Idle) -> Saving:
    """What goes with these gaps: a pause between kernels stays for each; twice as long at worst, none at best."""
    pause_s = _PAUSE_S
    if profile.machine is not None and profile.machine.kind == "gpu":
        pause_s = between_kernels_s(profile.machine, Setting(mode="graph"))
    stays = pause_s * idle.gaps
    return Saving(max(0.0, idle.seconds - stays), max(0.0, idle.seconds - 2 * stays), idle.seconds)
