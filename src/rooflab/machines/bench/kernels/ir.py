"""LLVM IR text: the frame that every kernel shares, and the module around them.

Every kernel has one signature, waits at a spin barrier for its companions, reads the clock itself,
and leaves start, end and its results in `out`:

    void kernel(a, b, c, n_bytes, total_iterations, w_elements, barrier, threads, out, s, t)
    out: [start s, start ns, end s, end ns, –, –, –, –, results…]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rooflab.errors import RooflabError

RESULT_OFFSET_BYTES = 64
# A barrier that holds this or more lets everybody go, whoever is missing.
RELEASED = 1 << 40
SIGNATURE = (
    "ptr %a, ptr %b, ptr %c, i64 %n, i64 %total, i64 %w, "
    "ptr %barrier, i64 %threads, ptr %out, double %s, double %t"
)


@dataclass(frozen=True)
class Target:
    """What of the platform shows in the IR.

    Attributes:
        machine: "x86_64" or "aarch64" (macOS says "arm64").
        clock_id: of the monotonic clock: 1 on Linux; 8 (CLOCK_UPTIME_RAW) on macOS.
        vector_bits: asked of the code generator, which else may split 512-bit vectors in two.
    """

    machine: str
    clock_id: int = 1
    vector_bits: int = 512

    @property
    def pause(self) -> tuple[str, str]:
        """Declaration and call of the instruction that eases a spin loop.

        Raises:
            RooflabError: neither x86-64 nor 64-bit Arm.
        """
        if self.machine.lower() in ("aarch64", "arm64"):
            return "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
        if self.machine.lower() in ("x86_64", "amd64"):
            return "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
        raise RooflabError(f"cannot measure a {self.machine} machine, expected x86-64 or 64-bit Arm")


@dataclass
class Body:
    """Lines of a function under construction, with fresh names for its values."""

    prefix: str = "v"
    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)

    def emit(self, text: str) -> str:
        """Append `%fresh = text`; returns the fresh name."""
        name = f"%{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(text)

    def store_result(self, place: int, vector: str, value: str, nbytes: int) -> None:
        """Append the store of `value` as the kernel's result number `place`."""
        pointer = self.emit(f"getelementptr i8, ptr %out, i64 {RESULT_OFFSET_BYTES + place * nbytes}")
        self.do(f"store {vector} {value}, ptr {pointer}, align 8")


@dataclass(frozen=True, eq=False)
class Emitted:
    """A kernel's IR.

    Attributes:
        symbol: its function's name.
        pieces: entry, phi, loop and exit lines.
        declarations: the intrinsics it calls.
        step_bytes: how far one loop iteration moves in each stream; 0 where there are none.
        operations: FLOP, OP, cycles or loads of one loop iteration.
        results: how many register-widths it leaves in `out`.
    """

    symbol: str
    entry: Body
    phis: list[str]
    loop: Body
    exit: Body
    step_bytes: int = 0
    operations: int = 0
    results: int = 0
    latch: str = "loop"

    @property
    def declarations(self) -> set[str]:
        """The intrinsics it calls."""
        return self.entry.declarations | self.loop.declarations | self.exit.declarations

    def text(self, target: Target) -> str:
        """The whole function."""
        lines = [
            f"define void @{self.symbol}({SIGNATURE}) #0 {{",
            "entry:",
            *self.entry.lines,
            "%arrived = atomicrmw add ptr %barrier, i64 1 seq_cst",
            "br label %spin",
            "spin:",
            "%count = load atomic i64, ptr %barrier acquire, align 8",
            target.pause[1],
            "%all.here = icmp uge i64 %count, %threads",
            "br i1 %all.here, label %go, label %spin",
            "go:",
            f"%clock.start = call i32 @clock_gettime(i32 {target.clock_id}, ptr %out)",
            "br label %loop",
            "loop:",
            f"%k = phi i64 [0, %go], [%k.next, %{self.latch}]",
            *self.phis,
            *self.loop.lines,
            "%k.next = add i64 %k, 1",
            "%more = icmp ult i64 %k.next, %total",
            "br i1 %more, label %loop, label %done",
            "done:",
            # Non-temporal stores are finished when they have left the write-combining buffers.
            "fence seq_cst",
            "%out.end = getelementptr i8, ptr %out, i64 16",
            f"%clock.end = call i32 @clock_gettime(i32 {target.clock_id}, ptr %out.end)",
            *self.exit.lines,
            "ret void",
            "}",
        ]
        return "\n".join(line if line.endswith((":", "{", "}")) else f"  {line}" for line in lines)


def module_text(kernels: Iterable[Emitted], target: Target) -> str:
    """One LLVM module of `kernels`."""
    listed = list(kernels)
    declarations = {line for kernel in listed for line in kernel.declarations}
    head = [*sorted(declarations), target.pause[0], "declare i32 @clock_gettime(i32, ptr)"]
    width = f'"prefer-vector-width"="{target.vector_bits}" "min-legal-vector-width"="{target.vector_bits}"'
    tail = ["!0 = !{i32 1}", "!1 = !{}", f"attributes #0 = {{ nounwind {width} }}", ""]
    return "\n".join([*head, *(kernel.text(target) for kernel in listed), *tail])
