"""Kernels for Arm, run under an emulator where there is one, against NumPy."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from rooflab.machines.bench.experiments.verify import NUMPY_TYPES
from rooflab.machines.bench.kernels.emit import clock_kernel, interleaved, peak_kernel, stream_kernel
from rooflab.machines.bench.kernels.expression import FOLDS, Window
from rooflab.machines.bench.kernels.ir import RESULT_OFFSET_BYTES, Emitted, Target, module_text
from rooflab.machines.bench.kernels.rows import PEAKS, READ, STENCIL, STORES, PeakRow, StreamRow
from rooflab.machines.bench.kernels.simd import Simd

QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
COMPILER = shutil.which("aarch64-linux-gnu-gcc")
pytestmark = pytest.mark.skipif(
    not (QEMU and COMPILER),
    reason="needs qemu-aarch64 and aarch64-linux-gnu-gcc (Debian: qemu-user, gcc-aarch64-linux-gnu)",
)

ITERATIONS, WIDTH, EACH, START = 5, 256, 64 * 1024, 4096
# Reads memory and a job from a file, runs the kernel, writes memory and results back.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
typedef void Kernel(void*, void*, void*, long, long, long, void*, long, void*, double, double);
extern Kernel %s;
static long barrier[8] __attribute__((aligned(64))), out[8192] __attribute__((aligned(64)));
int main(int argc, char **argv) {
    long job[6], bytes = atol(argv[2]);
    FILE *file = fopen(argv[1], "rb");
    char *memory = aligned_alloc(4096, bytes);
    if (fread(job, 8, 6, file) != 6 || fread(memory, 1, bytes, file) != bytes) return 3;
    fclose(file);
    %s(memory + job[0], memory + job[1], memory + job[2], job[3], job[4], job[5], barrier, 1, out, 0.5, 1.0);
    file = fopen(argv[1], "wb");
    fwrite(memory, 1, bytes, file);
    fwrite(out, 1, sizeof out, file);
    return fclose(file);
}
"""


@dataclass(frozen=True)
class Emulated:
    """A processor that QEMU imitates."""

    simd: Simd
    cpu: str
    features: str
    qemu: str


NEON = Emulated(Simd("NEON", 128, 32), "neoverse-n1", "+fp-armv8,+neon,+fullfp16", "max")
SVE = Emulated(
    Simd("SVE", 256, 32, scalable=True),
    "neoverse-v1",
    "+sve,+fp-armv8,+neon,+fullfp16",
    "max,sve256=on,sve512=off,sve1024=off,sve2048=off",
)
MACHINES = pytest.mark.parametrize("machine", [NEON, SVE], ids=["NEON", "SVE"])


def executed(
    folder: Path, machine: Emulated, kernel: Emitted, job: list[int], memory: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Memory and results after the kernel has run."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    code = target.create_target_machine(cpu=machine.cpu, features=machine.features, opt=3, reloc="pic")
    (folder / "kernel.o").write_bytes(
        code.emit_object(llvm.parse_assembly(module_text([kernel], Target("aarch64"))))
    )
    (folder / "main.c").write_text(MAIN % (kernel.symbol, kernel.symbol))
    subprocess.run([str(COMPILER), "-static", "-o", "main", "main.c", "kernel.o"], cwd=folder, check=True)
    (folder / "data").write_bytes(np.array(job, np.int64).tobytes() + memory.tobytes())
    command = [str(QEMU), "-cpu", machine.qemu, "./main", "data", str(memory.size)]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    raw = np.frombuffer((folder / "data").read_bytes(), np.uint8)
    return raw[: memory.size], raw[memory.size + RESULT_OFFSET_BYTES :]


@MACHINES
@pytest.mark.parametrize("row", [READ, STORES[2], STORES[5], STENCIL], ids=lambda row: row.name)
def test_emulated_streams_write_and_fold_what_numpy_does(
    tmp_path: Path, machine: Emulated, row: StreamRow
) -> None:
    kernel = stream_kernel("kernel", row, machine.simd)
    kind, nbytes = NUMPY_TYPES[row.dtype], kernel.step_bytes * ITERATIONS
    streams, item = row.expression.streams, np.dtype(NUMPY_TYPES[row.dtype]).itemsize
    memory = np.zeros(3 * EACH, np.uint8)
    memory.view(kind)[:] = np.random.default_rng(0).integers(-50, 50, memory.size // item)
    offsets = {name: k * EACH + START for k, name in enumerate(streams)}
    job = [*(offsets.get(name, 0) for name in "abc"), nbytes, ITERATIONS, WIDTH]
    after, results = executed(tmp_path, machine, kernel, job, memory)
    windows = {
        name: Window(memory[k * EACH : (k + 1) * EACH].view(kind), START // item, nbytes // item)
        for k, name in enumerate(streams)
    }
    expected = row.expression.evaluate({**windows, "s": kind(0.5), "t": kind(1), "i": 0, "w": WIDTH})
    if row.expression.fold:
        fold = FOLDS[row.expression.fold]
        lanes = kernel.results * machine.simd.lanes(row.dtype)
        assert fold(results.view(kind)[:lanes]) == fold(expected)
        assert np.array_equal(after, memory)
    else:
        first = offsets[row.expression.writes[0]]
        assert np.array_equal(after[first : first + nbytes].view(kind), expected)
        outside = np.ones(memory.size, bool)
        outside[first : first + nbytes] = False
        assert np.array_equal(after[outside], memory[outside])


@MACHINES
@pytest.mark.parametrize("name", ["fma fp64", "fma fp16", "fma+add fp32"])
def test_emulated_peaks_compute_what_numpy_does(tmp_path: Path, machine: Emulated, name: str) -> None:
    row: PeakRow = next(row for row in PEAKS if row.name == name)
    kernel, kind = peak_kernel("kernel", row, machine.simd), NUMPY_TYPES[row.dtype]
    memory = np.zeros(EACH, np.uint8)
    memory.view(kind)[:] = 1
    _, results = executed(tmp_path, machine, kernel, [0, 0, 0, 0, ITERATIONS, 0], memory)
    chains, lanes = list(interleaved(row, machine.simd)), machine.simd.lanes(row.dtype)
    got = results.view(kind)[: lanes * len(chains)].reshape(len(chains), lanes)
    for place, expression in enumerate(chains):
        value = kind(1)
        for _ in range(ITERATIONS * row.repeat):
            value = kind(expression.evaluate({"x": value, "s": kind(0.5), "t": kind(1)}))
        assert (got[place] == value).all()


def test_the_emulated_clock_adds_one_step_a_cycle(tmp_path: Path) -> None:
    memory = np.zeros(EACH, np.uint8)
    memory.view(np.int64)[:] = 7
    step = 0x5DEECE66D
    _, results = executed(tmp_path, NEON, clock_kernel("kernel"), [0, 0, 0, 0, ITERATIONS, step], memory)
    value = 7
    for k in range(ITERATIONS * 128):
        value = value ^ step if k % 2 else value + step
    assert results.view(np.int64)[0] == value
