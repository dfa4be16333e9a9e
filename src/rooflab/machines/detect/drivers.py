"""GPUs and their drivers as the kernel shows them: PCI devices, NVIDIA's /proc folder, AMD's kfd.

NVIDIA's module options stand in /proc/driver/nvidia/params: RmProfilingAdminOnly is 1 where only root may read
counters, which nsys and ncu report as ERR_NVGPUCTRPERM (developer.nvidia.com/ERR_NVGPUCTRPERM).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from rooflab.machines.detect.files import Tree

_PCI = "sys/bus/pci/devices"
_NVIDIA, _AMD = "0x10de", "0x1002"
_DISPLAY, _ACCELERATOR = "0x03", "0x12"  # base classes of PCI: display controllers, processing accelerators


@dataclass(frozen=True, slots=True, kw_only=True)
class Drivers:
    """What the kernel shows of GPUs and their drivers.

    Attributes:
        lists_pci: whether PCI devices are listed at all: without that none can be said to be missing.
        nvidia_cards, amd_cards: display controllers and accelerators of that vendor.
        nvidia_version: of NVIDIA's kernel module; None where it is not loaded.
        counters_admin_only: whether only root may read counters of NVIDIA's GPUs.
        amd_nodes: GPUs that AMD's compute driver shows; None where it is not loaded.
        kfd_access: whether this process may open /dev/kfd; None where it is not there, or of a snapshot.
        wsl_gpu: whether Windows lends its GPU to WSL (/dev/dxg).
    """

    lists_pci: bool = False
    nvidia_cards: int = 0
    amd_cards: int = 0
    nvidia_version: str | None = None
    counters_admin_only: bool | None = None
    amd_nodes: int | None = None
    kfd_access: bool | None = None
    wsl_gpu: bool = False


def read_drivers(tree: Tree) -> Drivers:
    """The GPUs and drivers in the file system `tree`."""
    devices = tree.names(_PCI)
    vendors = [tree.text(f"{_PCI}/{each}/vendor") for each in devices if _is_gpu(tree, each)]
    return Drivers(
        lists_pci=bool(devices),
        nvidia_cards=vendors.count(_NVIDIA),
        amd_cards=vendors.count(_AMD),
        nvidia_version=_nvidia_version(tree),
        counters_admin_only=_admin_only(tree),
        amd_nodes=_amd_nodes(tree),
        kfd_access=os.access("/dev/kfd", os.R_OK | os.W_OK)
        if tree.is_live and os.path.exists("/dev/kfd")
        else None,
        wsl_gpu="dxg" in tree.names("dev"),
    )


def _is_gpu(tree: Tree, device: str) -> bool:
    kind = tree.text(f"{_PCI}/{device}/class") or ""
    return kind.startswith((_DISPLAY, _ACCELERATOR))


def _nvidia_version(tree: Tree) -> str | None:
    """From "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 …"."""
    match = re.search(r"Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", (tree.text("proc/driver/nvidia/version") or "") + " ")
    return match[1] if match else None


def _admin_only(tree: Tree) -> bool | None:
    match = re.search(r"RmProfilingAdminOnly:\s*(\d)", tree.text("proc/driver/nvidia/params") or "")
    return match[1] != "0" if match else None


def _amd_nodes(tree: Tree) -> int | None:
    """Nodes of AMD's driver that have a GPU: those of CPUs have gpu_id 0."""
    base = "sys/class/kfd/kfd/topology/nodes"
    nodes = tree.names(base)
    if not nodes:
        return None
    return sum(bool(tree.integer(f"{base}/{each}/gpu_id")) for each in nodes)
