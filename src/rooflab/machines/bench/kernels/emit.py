"""From a row to its kernel's IR: vector code without inline assembly, the same for x86 and Arm."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from rooflab.dtypes import dtype as dtype_of
from rooflab.errors import RooflabError
from rooflab.machines.bench.kernels.dot_products import Dot
from rooflab.machines.bench.kernels.expression import Expression, Offset, offset_of, stream_of
from rooflab.machines.bench.kernels.ir import RELEASED, Body, Emitted
from rooflab.machines.bench.kernels.rows import PeakRow, StreamRow
from rooflab.machines.bench.kernels.simd import LLVM_TYPES, Simd
from rooflab.machines.bench.kernels.variants import PLAIN, Variant

_FOLDS: dict[type[ast.operator], str] = {ast.BitXor: "xor", ast.Add: "fadd"}
_BINARY: dict[type[ast.operator], str] = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul"}
_SVE_GRANULE_BYTES = 16
LINE_BYTES = 64


def stream_kernel(symbol: str, row: StreamRow, simd: Simd, variant: Variant = PLAIN) -> Emitted:
    """The kernel of a streaming row in `simd` registers, its loop written as `variant` says.

    The loop wraps its offset at n with a select, not a branch: a small working set would otherwise pay
    a mispredicted exit per pass.
    """
    entry, loop, last = Body("e"), Body("v"), Body("q")
    vector, nbytes = simd.vector(row.dtype), simd.nbytes(row.dtype)
    # fmuladd, not fma: without the instruction LLVM would call a library function for each element.
    scope = _Scope(loop, row.dtype, simd, _splats(entry, row.dtype, simd), fused="fmuladd")
    scale = _vscale(entry) if simd.scalable else None
    mask = _every_lane(entry, row.dtype) if simd.scalable and row.nontemporal else None
    fold = row.expression.fold
    units = max(1, round(row.unroll * variant.unroll))
    sums = [f"%x{k}" for k in range(min(units, simd.registers // 2))] if fold else []
    stores: list[tuple[str, str]] = []
    for number in range(units):
        unit, place = divmod(number, variant.places)
        at = _Place(loop, row, unit * nbytes, unit, scale, place)
        if variant.prefetch_bytes and unit * nbytes % LINE_BYTES == 0:
            _prefetch(loop, row, at, variant.prefetch_bytes)
        value = scope.value(row.expression.statement.value, at)
        if fold:
            k = number % len(sums)
            sums[k] = loop.emit(f"{_FOLDS[fold]} {vector} {sums[k]}, {value}")
            continue
        stores.append((value, at.pointer(row.expression.writes[0], Offset())))
        if not variant.grouped or number == units - 1:
            for stored, pointer in stores:
                _store(loop, row, simd, stored, pointer, mask)
            stores.clear()
    moved = units // variant.places
    step = loop.emit(f"mul i64 {scale}, {moved}") if scale else str(moved * nbytes)
    loop.do(f"%moved = add i64 %i, {step}")
    loop.do("%past = icmp uge i64 %moved, %n")
    loop.do("%i.next = select i1 %past, i64 0, i64 %moved, !unpredictable !1")
    phis = ["%i = phi i64 [0, %go], [%i.next, %loop]"]
    for k, value in enumerate(sums):
        phis.append(f"%x{k} = phi {vector} [zeroinitializer, %go], [{value}, %loop]")
        last.store_result(k, vector, value, nbytes)
    step_bytes = moved * nbytes
    operations = row.expression.flop * units * simd.lanes(row.dtype)
    return Emitted(symbol, entry, phis, loop, last, step_bytes, operations, len(sums))


def _prefetch(loop: Body, row: StreamRow, at: _Place, ahead_bytes: int) -> None:
    """Append a prefetch of each stream that is read, `ahead_bytes` behind its place: never a fault."""
    loop.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for stream in sorted(set(row.expression.streams) - set(row.expression.writes)):
        pointer = loop.emit(f"getelementptr i8, ptr {at.pointer(stream, Offset())}, i64 {ahead_bytes}")
        loop.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")


def _store(loop: Body, row: StreamRow, simd: Simd, value: str, pointer: str, mask: str | None) -> None:
    """Append the store of `value`; with `mask`, as SVE's STNT1, since LLVM drops the hint on a scalable store."""
    vector = simd.vector(row.dtype)
    if mask is None:
        align = simd.nbytes(row.dtype) if not simd.scalable else _SVE_GRANULE_BYTES
        hint = ", !nontemporal !0" if row.nontemporal else ""
        loop.do(f"store {vector} {value}, ptr {pointer}, align {align}{hint}")
        return
    function = f"void @llvm.aarch64.sve.stnt1.{simd.mangled(row.dtype)}"
    mask_type = _mask_type(row.dtype)
    loop.declarations.add(f"declare {function}({vector}, {mask_type}, ptr)")
    loop.do(f"call {function}({vector} {value}, {mask_type} {mask}, ptr {pointer})")


def _every_lane(entry: Body, dtype: str) -> str:
    """A predicate that is true in every lane: 0 … lanes − 1 are all below the stream's bytes.

    A plain PTRUE would do, but LLVM then makes an ordinary store of the masked one.
    """
    mask_type = _mask_type(dtype)
    function = f"{mask_type} @llvm.aarch64.sve.whilelo.nxv{128 // dtype_of(dtype).bits}i1.i64"
    entry.declarations.add(f"declare {function}(i64, i64)")
    return entry.emit(f"call {function}(i64 0, i64 %n)")


def _mask_type(dtype: str) -> str:
    return f"<vscale x {128 // dtype_of(dtype).bits} x i1>"


def peak_kernel(symbol: str, row: PeakRow, simd: Simd, dot: Dot | None = None) -> Emitted:
    """The kernel of a computing row: its chains interleaved, `repeat` steps of each per iteration.

    Args:
        dot: the instruction behind `dot(…)`, for rows that have one.
    """
    entry, loop, last = Body("e"), Body("v"), Body("q")
    kind = dot.accumulate if dot else row.dtype
    vector, nbytes = simd.vector(kind), simd.nbytes(kind)
    names = _splats(entry, kind, simd) | (dot.operands(entry, simd) if dot else {})
    scope = _Scope(loop, kind, simd, names, dot)
    chains = list(interleaved(row, simd))
    # Volatile: equal starts would let equal chains be computed once.
    starts = [entry.emit(f"load volatile {vector}, ptr %a, align 8") for _ in chains]
    state = [f"%x{k}" for k in range(len(chains))]
    for _ in range(row.repeat):
        for k, expression in enumerate(chains):
            scope.names["x"] = state[k]
            state[k] = scope.value(expression.statement.value)
    phis = [
        f"%x{k} = phi {vector} [{start}, %go], [{end}, %loop]"
        for k, (start, end) in enumerate(zip(starts, state, strict=True))
    ]
    for k, value in enumerate(state):
        last.store_result(k, vector, value, nbytes)
    per_step = sum(dot.operations(simd) if dot else one.flop * simd.lanes(kind) for one in chains)
    return Emitted(symbol, entry, phis, loop, last, 0, per_step * row.repeat, len(chains))


def clock_kernel(symbol: str = "clock", length: int = 128) -> Emitted:
    """A dependent chain of alternating add and xor: `length` cycles per iteration.

    LLVM folds a chain of adds into one, and some cores' renamers make adds of small constants free;
    alternating two operations on registers leaves one cycle each.
    """
    entry, loop, last = Body("e"), Body("v"), Body("q")
    start = entry.emit("load volatile i64, ptr %a, align 8")
    value = "%x0"
    for k in range(length):
        value = loop.emit(f"{'xor' if k % 2 else 'add'} i64 {value}, %w")
    last.store_result(0, "i64", value, 8)
    return Emitted(symbol, entry, [f"%x0 = phi i64 [{start}, %go], [{value}, %loop]"], loop, last, 0, length, 1)


def chase_kernel(symbol: str = "chase", length: int = 16) -> Emitted:
    """A dependent chain of loads, `length` per iteration: each word holds the address of the next."""
    loop, last = Body("v"), Body("q")
    value = "%x0"
    for _ in range(length):
        value = loop.emit(f"load ptr, ptr {value}, align 8")
    last.store_result(0, "ptr", value, 8)
    return Emitted(symbol, Body(), [f"%x0 = phi ptr [%a, %go], [{value}, %loop]"], loop, last, 0, length, 1)


def ping_pong_kernel(symbol: str = "ping_pong") -> Emitted:
    """Two threads hand a counter at a to and fro: w = 0 waits for even values, w = 1 for odd ones."""
    loop = Body("v")
    twice = loop.emit("shl i64 %k, 1")
    turn = loop.emit(f"add i64 {twice}, %w")
    loop.do("br label %wait")
    loop.do("wait:")
    seen = loop.emit("load atomic i64, ptr %a acquire, align 8")
    mine = loop.emit(f"icmp eq i64 {seen}, {turn}")
    barrier = loop.emit("load atomic i64, ptr %barrier acquire, align 8")
    released = loop.emit(f"icmp uge i64 {barrier}, {RELEASED}")
    done = loop.emit(f"or i1 {mine}, {released}")
    loop.do(f"br i1 {done}, label %hand, label %wait")
    loop.do("hand:")
    handed = loop.emit(f"add i64 {turn}, 1")
    loop.do(f"store atomic i64 {handed}, ptr %a release, align 8")
    return Emitted(symbol, Body(), [], loop, Body(), 0, 1, 0, latch="hand")


def vector_length_kernel(symbol: str = "vector_length") -> Emitted:
    """The SVE register's bytes as the only result."""
    entry, last = Body("e"), Body("q")
    last.store_result(0, "i64", _vscale(entry), 8)
    return Emitted(symbol, entry, [], Body("v"), last, 0, 0, 1)


def interleaved(row: PeakRow, simd: Simd) -> Iterator[Expression]:
    """The row's chains one by one, their kinds alternating as evenly as their counts allow."""
    chains = row.chains(simd.registers)
    total = max(chain.count for chain in chains)
    for k in range(total):
        for chain in chains:
            if (k + 1) * chain.count // total > k * chain.count // total:
                yield chain.expression


@dataclass
class _Place:
    """Pointers of one unrolled unit: stream + loop offset + the unit's own place (+ `part` × w bytes)."""

    body: Body
    row: StreamRow
    fixed_bytes: int
    unit: int
    scale: str | None
    part: int = 0

    def pointer(self, stream: str, offset: Offset) -> str:
        element = dtype_of(self.row.dtype).bits // 8
        place = self.body.emit(f"getelementptr inbounds i8, ptr %{stream}, i64 %i")
        if self.scale:
            place = self._moved(place, self.body.emit(f"mul i64 {self.scale}, {self.unit}"))
        if offset.rows:
            place = self._moved(place, self.body.emit(f"mul i64 %w, {offset.rows * element}"))
        if self.part:
            place = self._moved(place, self.body.emit(f"mul i64 %w, {self.part}"))
        fixed = offset.elements * element + (0 if self.scale else self.fixed_bytes)
        return self._moved(place, str(fixed)) if fixed else place

    def _moved(self, pointer: str, by: str) -> str:
        return self.body.emit(f"getelementptr inbounds i8, ptr {pointer}, i64 {by}")


@dataclass
class _Scope:
    """Instructions for a right-hand side; `p * q + r` becomes one fused multiply-add.

    Attributes:
        fused: LLVM's intrinsic for it: "fma" always fuses, "fmuladd" where the host can.
    """

    body: Body
    dtype: str
    simd: Simd
    names: dict[str, str]
    dot: Dot | None = None
    fused: str = "fma"

    def value(self, node: ast.expr, at: _Place | None = None) -> str:
        match node:
            case ast.Name(id=name):
                return self.names[name]
            case ast.Subscript() if at:
                return self._load(node, at)
            case ast.BinOp(op=ast.Add(), left=ast.BinOp(op=ast.Mult()) as product, right=rest):
                return self._fused(product, rest, at)
            case ast.BinOp(op=ast.Add(), left=rest, right=ast.BinOp(op=ast.Mult()) as product):
                return self._fused(product, rest, at)
            case ast.BinOp():
                left, right = self.value(node.left, at), self.value(node.right, at)
                return self.body.emit(f"{_BINARY[type(node.op)]} {self.simd.vector(self.dtype)} {left}, {right}")
            case ast.Call(func=ast.Name(id="dot")) if self.dot:
                return self.dot.call(self.body, self.simd, *(self.value(arg, at) for arg in node.args))
        raise RooflabError(f"kernel row: cannot emit {ast.unparse(node)!r}")

    def _load(self, node: ast.Subscript, at: _Place) -> str:
        offset = offset_of(node)
        whole = offset == Offset() and not self.simd.scalable
        align = self.simd.nbytes(self.dtype) if whole else dtype_of(self.dtype).bits // 8
        pointer = at.pointer(stream_of(node), offset)
        return self.body.emit(f"load {self.simd.vector(self.dtype)}, ptr {pointer}, align {align}")

    def _fused(self, product: ast.BinOp, rest: ast.expr, at: _Place | None) -> str:
        vector = self.simd.vector(self.dtype)
        values = [self.value(node, at) for node in (product.left, product.right, rest)]
        function = f"{vector} @llvm.{self.fused}.{self.simd.mangled(self.dtype)}"
        self.body.declarations.add(f"declare {function}({vector}, {vector}, {vector})")
        return self.body.emit(f"call {function}({', '.join(f'{vector} {value}' for value in values)})")


def _splats(entry: Body, dtype: str, simd: Simd) -> dict[str, str]:
    """The scalars s and t in every lane: name in the row → value."""
    if dtype.startswith("int"):
        return {}
    vector, element = simd.vector(dtype), LLVM_TYPES[dtype]
    splats = {}
    for name in ("s", "t"):
        one = f"%{name}" if dtype == "fp64" else entry.emit(f"fptrunc double %{name} to {element}")
        if vector != element:
            mask = vector.replace(f" {element}>", " i32>")
            lane = entry.emit(f"insertelement {vector} poison, {element} {one}, i64 0")
            one = entry.emit(f"shufflevector {vector} {lane}, {vector} poison, {mask} zeroinitializer")
        splats[name] = one
    return splats


def _vscale(entry: Body) -> str:
    """The SVE register's bytes."""
    entry.declarations.add("declare i64 @llvm.vscale.i64()")
    return entry.emit(f"mul i64 {entry.emit('call i64 @llvm.vscale.i64()')}, {_SVE_GRANULE_BYTES}")
