"""GPUs: cards, their drivers, and whether their counters may be read."""

from __future__ import annotations

from functools import partial

from rooflab.machines.checkup.outside import Answer, without_names
from rooflab.machines.checkup.seen import Seen
from rooflab.machines.detect import Gpu
from rooflab.types.checkup import Grant
from rooflab.units import iec

_GRANT = partial(Grant, topic="GPUs")
_PREDICTED = "times on GPUs are predicted, not measured"
_ADMIN_ONLY = "ncu and nsys fail with ERR_NVGPUCTRPERM: no counters of GPUs"
_PERMIT = "modprobe nvidia NVreg_RestrictProfilingToAdminUsers=0 (developer.nvidia.com/ERR_NVGPUCTRPERM), or root"


def grants(seen: Seen, smi: Answer | None) -> tuple[Grant, ...]:
    """The drivers of NVIDIA's and AMD's GPUs; `smi` is what nvidia-smi answered, None where it was not asked."""
    if seen.system == "Darwin":
        found = "Apple's GPU is not looked at"
        todo = "predict: `rooflab op matmul 4096 4096 4096 --machine m2-ultra-76-core`"
        return (_GRANT(name="GPUs", status="unknown", found=found, means=_PREDICTED, todo=todo),)
    if not seen.linux:
        return ()
    judged = [_nvidia(seen, smi)]
    if seen.drivers.nvidia_version is not None or (seen.host is not None and seen.host.gpus):
        judged.append(_counters(seen))
    judged.append(_amd(seen))
    return tuple(judged)


def _nvidia(seen: Seen, smi: Answer | None) -> Grant:
    drivers = seen.drivers
    gpus = () if seen.host is None else seen.host.gpus
    note = None if seen.host is None else seen.host.gpus_note
    values = {"driver": drivers.nvidia_version, "cards": drivers.nvidia_cards, "gpus": len(gpus)}
    source = "NVML, nvidia-smi, /proc/driver/nvidia, PCI"
    grant = partial(_GRANT, name="NVIDIA driver", source=source, values=values)
    version = drivers.nvidia_version or (gpus[0].driver if gpus else None)
    said = "" if smi is None or smi.works else f"; nvidia-smi: {without_names(smi.said) or 'fails'}"
    if gpus:
        found = f"{version or 'version not told'}: {_listed(gpus)}"
        if any(gpu.mig for gpu in gpus):
            means = "MIG is on: a process gets a part of a card, whose roofs are lower than the card's"
            return grant(status="limited", found=found, means=means, todo="count with the part's memory and SMs")
        if said:
            return grant(
                status="limited", found=f"{found}{said}", means=_PREDICTED, todo="reboot after driver updates"
            )
        return grant(status="ok", found=found)
    mismatch = "mismatch" in said.lower() or "mismatch" in (note or "").lower()
    if mismatch:
        found = f"kernel module {version or 'of another version'} and library do not match{said}"
        return grant(status="limited", found=found, means=_PREDICTED, todo="reboot, or load the module again")
    if version is not None or (smi is not None and smi.works):
        told = smi.said if smi is not None and smi.works else f"loaded{said}"
        missing = note is not None and "nvidia-ml-py" in note
        todo = "python -m pip install 'rooflab[cuda]'" if missing else "see `nvidia-smi`"
        found = f"{version or 'version not told'}; {without_names(told)}"
        return grant(status="limited", found=found, means="GPUs are not named in results", todo=todo)
    if drivers.nvidia_cards:
        found = f"{drivers.nvidia_cards} cards, but no driver"
        return grant(status="missing", found=found, means=_PREDICTED, todo="install NVIDIA's driver")
    if not drivers.lists_pci:
        todo = "see `nvidia-smi`; in Docker: --gpus all"
        return grant(
            status="unknown", found=f"no driver seen, no PCI devices listed{said}", means=_PREDICTED, todo=todo
        )
    todo = "nothing, unless there should be one (docker --gpus all, srun --gpus)"
    return grant(status="missing", found="no NVIDIA GPU here", means=_PREDICTED, todo=todo)


def _listed(gpus: tuple[Gpu, ...]) -> str:
    """The cards, equal ones counted: "8 × NVIDIA H100 80GB HBM3 (80 GiB)"."""
    counts: dict[str, int] = {}
    for gpu in gpus:
        size = "" if gpu.memory_bytes is None else f" ({iec(gpu.memory_bytes, 3)})"
        counts[f"{gpu.name}{size}"] = counts.get(f"{gpu.name}{size}", 0) + 1
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())


def _counters(seen: Seen) -> Grant:
    only = seen.drivers.counters_admin_only
    values = {"admin_only": only}
    grant = partial(_GRANT, name="NVIDIA counters", source="/proc/driver/nvidia/params", values=values)
    if only is None:
        return grant(
            status="unknown", found="not told", means="ncu may be refused", todo="try `ncu --version` and a run"
        )
    if only:
        return grant(
            status="limited", found="for root alone (RmProfilingAdminOnly 1)", means=_ADMIN_ONLY, todo=_PERMIT
        )
    return grant(status="ok", found="for all users")


def _amd(seen: Seen) -> Grant:
    drivers = seen.drivers
    values = {"cards": drivers.amd_cards, "gpus": drivers.amd_nodes}
    grant = partial(_GRANT, name="AMD driver", source="/sys/class/kfd, /dev/kfd, PCI", values=values)
    if drivers.amd_nodes and drivers.kfd_access:
        return grant(status="ok", found=f"{drivers.amd_nodes} GPUs, /dev/kfd opens")
    if drivers.amd_nodes:
        found = f"{drivers.amd_nodes} GPUs, /dev/kfd may not be opened"
        todo = "join the groups render and video; in Docker: --device /dev/kfd --device /dev/dri"
        return grant(status="limited", found=found, means="ROCm sees no GPU", todo=todo)
    if drivers.amd_cards:
        found = f"{drivers.amd_cards} cards, but none for computing (no ROCm driver)"
        return grant(status="missing", found=found, means=_PREDICTED, todo="install ROCm's driver (amdgpu-dkms)")
    if not drivers.lists_pci:
        found = "no driver seen, no PCI devices listed"
        return grant(status="unknown", found=found, means=_PREDICTED, todo="see `rocm-smi`")
    todo = "nothing, unless there should be one"
    return grant(status="missing", found="no AMD GPU here", means=_PREDICTED, todo=todo)
