"""What instructions of optimised IR are to a core: kinds of operations, in pieces of its vectors.

Kinds are words of plain text, as "fp add" or "divide fp64 vector"; `kind_of` says which an instruction is and how
many of it there are. Nothing here knows how long they take.
"""

from __future__ import annotations

import re

from rooflab.loops.lowered.ir_text import Instruction
from rooflab.loops.lowered.pointers import called
from rooflab.machines.bench.experiments.core_programs import vector_bytes
from rooflab.work.formulas.functions import REAL

_TYPE = re.compile(
    r"(?:<(?P<lanes>\d+) x (?P<vector>double|float|half|i\d+|ptr)>|\b(?P<scalar>double|float|half|i\d+|ptr)\b)"
)
_BYTES = {"double": 8, "float": 4, "half": 2, "ptr": 8}
_FP = ("double", "float", "half")
_NAMES = {"double": "fp64", "float": "fp32", "half": "fp16"}
_INTRINSIC = re.compile(r"@llvm\.(?P<name>[a-z_.]+?)\.(?:v\d+)?[fip]")
_ADDS = ("fadd", "fsub", "fneg")
_INTEGER = ("add", "sub", "and", "or", "xor", "shl", "lshr", "ashr", "icmp")
_VECTOR = re.compile(r"(?:= load|^\s*store) <(?P<lanes>\d+) x (?P<kind>double|float|half|ptr|i\d+)>")
_CONVERSIONS = ("sitofp", "uitofp", "fptosi", "fptoui", "fpext", "fptrunc")
# Of single numbers, which go to other registers.
_BETWEEN = {"sitofp": "from", "uitofp": "from", "fptosi": "to", "fptoui": "to"}
# Functions of numba's and of the heap that have a price; what frees memory is in that of what allocates it.
_PRICED = {
    **dict.fromkeys(("malloc", "calloc", "aligned_alloc", "_Znwm", "_Znam"), "allocation"),
    "NRT_Allocate": "allocation", "NRT_MemInfo_alloc": "allocation", "NRT_MemInfo_alloc_safe": "allocation",
    "NRT_MemInfo_alloc_aligned": "allocation", "NRT_MemInfo_alloc_safe_aligned": "allocation",
    "numba_get_np_random_state": "random_state", "numba_rnd_shuffle": "random_refill",
}  # fmt: skip
# What counts the references to an array, one locked change each.
_REFERENCES = ("NRT_incref", "NRT_decref")
_SHUFFLES = ("shufflevector", "insertelement", "extractelement")
_SHIFTS = ("shl", "lshr", "ashr")
_ROTATES = ("fshl", "fshr")
_WIDENED = ("zext", "sext", "trunc")
_TO_VECTOR = re.compile(r" to <(?P<lanes>\d+) x i(?P<bits>\d+)>")
_TIMES = re.compile(r", (\d+)(?:,|$)")
_BY_CONSTANTS = re.compile(r", (?:splat \(|<)")  # of a vector: operands that are constants
_BY_ADDRESS = (2, 3, 4, 5, 8, 9, 16, 32, 64)
_ADD_LIKE = (
    "fabs",
    "copysign",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "round",
)
_COMPARES = ("maxnum", "minnum", "maximum", "minimum")
_OF_LIBRARY = ("powi", "ldexp", "frexp", "lround", "llround", "lrint", "llrint")
_INTEGER_LIKE = ("smax", "smin", "umax", "umin", "abs", "ctpop", "ctlz", "cttz", "bswap", "fshl", "fshr")


def kind_of(instruction: Instruction) -> tuple[str, float] | None:
    """(kind, how many) of an instruction; None of one that costs nothing of its own."""
    text, opcode = instruction.text, instruction.opcode
    if opcode == "br":
        return ("branch", 1.0) if " i1 " in text else None
    body = text.partition(" = ")[2] or text
    match = _TYPE.search(body)
    kind = "" if match is None else match["vector"] or match["scalar"]
    lanes = int(match["lanes"] or 1) if match else 1
    pieces = float(max(1, -(-lanes * _width(kind) // vector_bytes())))
    floating = kind in _FP
    vector = width_of(lanes * _width(kind)) if lanes > 1 else ""
    wide = " wide" if vector == " wide" else ""
    if opcode in ("load", "store"):
        whole = opcode == "load" and lanes == 1 and not floating
        return ("load integer" if whole else f"{opcode}{vector}"), pieces
    if opcode in _ADDS:
        return f"fp add{wide}", pieces
    if opcode == "fcmp":
        return "fp compare", pieces
    if opcode == "fmul":
        return f"fp multiply{wide}", pieces
    if opcode == "fdiv":
        return f"divide {_NAMES[kind]}{vector}", pieces
    if opcode == "frem":
        return f"call fmod {_NAMES[kind]}", float(lanes)
    if opcode == "select":
        if " i1 true," in text:
            # a jump in the machine code
            return None
        types = list(_TYPE.finditer(body))
        chosen = types[1] if len(types) > 1 else match
        named = "" if chosen is None else chosen["vector"] or chosen["scalar"]
        return ("fp select" if named in _FP else "integer"), pieces
    if opcode == "mul":
        by = _TIMES.search(body)
        if lanes == 1 and by and int(by[1]) in _BY_ADDRESS:
            # the code generator adds and shifts instead
            return "integer", 1.0
        return "integer multiply", pieces
    if opcode in ("sdiv", "udiv", "srem", "urem"):
        by = _TIMES.search(body)
        if by is None:
            if lanes > 1 and _BY_CONSTANTS.search(body):
                # of a vector the upper halves of products as well
                return f"vector multiply{wide}", pieces
            return "integer divide", float(lanes)
        # the code generator shifts, or takes the upper half of a product (Granlund and Montgomery, 1994)
        if int(by[1]).bit_count() == 1:
            return "integer", float(lanes)
        # the rest is what is left of it after another product
        return f"integer {'divide' if opcode.endswith('div') else 'remainder'} constant", float(lanes)
    if opcode in _INTEGER:
        if lanes == 1:
            return ("integer shift" if opcode in _SHIFTS else "integer"), pieces
        return f"vector {'shift' if opcode in _SHIFTS else 'integer'}{wide}", pieces
    if opcode in _BETWEEN and lanes == 1:
        return f"convert {_BETWEEN[opcode]} whole", 1.0
    if opcode in _CONVERSIONS:
        return "convert", pieces
    if opcode in _SHUFFLES:
        # one number in or out is in one piece of the vector
        return (f"shuffle{wide}", pieces) if opcode == "shufflevector" else ("shuffle", 1.0)
    if opcode in _WIDENED and lanes > 1:
        return _widened(body)
    if opcode in ("atomicrmw", "cmpxchg"):
        return "locked", 1.0
    if opcode == "call":
        return _call(text, kind if floating else "double", lanes, pieces, vector)
    return None


def _widened(body: str) -> tuple[str, float] | None:
    """(kind, how many) of whole numbers' vectors made wider or narrower: a shuffle for each piece of the wider."""
    made, given = _TO_VECTOR.search(body), _TYPE.search(body)
    if made is None or given is None or _width(given["vector"]) == 0 or given["vector"] == "i1":
        return None
    nbytes = int(made["lanes"]) * max(int(made["bits"]) // 8, _width(given["vector"]))
    wide = " wide" if width_of(nbytes) == " wide" else ""
    return f"shuffle{wide}", float(max(1, -(-nbytes // vector_bytes())))


def vector_access_bytes(instruction: Instruction) -> int:
    """Bytes that a load or store of a vector touches; 0 of any other instruction."""
    match = _VECTOR.search(instruction.text) if instruction.opcode in ("load", "store") else None
    return int(match["lanes"]) * _width(match["kind"]) if match else 0


def width_of(nbytes: int) -> str:
    """What a kind's name ends with, of vectors of so many bytes: wider than 32 they are those of 64."""
    return " wide" if min(nbytes, vector_bytes()) > 32 else " vector"


def _call(text: str, kind: str, lanes: int, pieces: float, vector: str) -> tuple[str, float] | None:
    match = _INTRINSIC.search(text)
    if match is None:
        name = called(text)
        if name in _REFERENCES:
            return "locked", 1.0
        if name in _PRICED:
            return f"call {_PRICED[name]}", 1.0
        if not name or name.startswith(("llvm.", "NRT_", "nrt_")):
            return None
        short = name if name in REAL else name.removesuffix("f")
        if short == "sqrt":
            # put in place by the code generator, but for numbers below 0
            return f"sqrt {'fp64' if short == name else 'fp32'}", 1.0
        if short in REAL:
            return f"call {short} {'fp64' if short == name else 'fp32'}", 1.0
        return f"call {_plain(name)}", 1.0
    name = match["name"]
    if name in ("fma", "fmuladd"):
        return f"fp multiply-add{' wide' if vector == ' wide' else ''}", pieces
    if name == "sqrt":
        return f"sqrt {_NAMES[kind]}{vector}", pieces
    if name in _COMPARES:
        return "fp compare", pieces
    if name in _ADD_LIKE:
        return "fp add", pieces
    if name in _INTEGER_LIKE:
        return ("integer shift" if name in _ROTATES and lanes == 1 else "integer"), pieces
    if name.startswith(("masked.gather", "masked.scatter")):
        what = "gather" if "gather" in name else "scatter"
        return f"{what}{' wide' if width_of(lanes * _width(kind)) == ' wide' else ''}", float(lanes)
    if name.startswith(("masked.load", "masked.store")):
        return f"{'load' if 'load' in name else 'store'}{vector or ' vector'}", pieces
    if name.startswith("vector.reduce"):
        return "shuffle", 4.0
    if name in ("dbg", "lifetime.start", "lifetime.end", "assume", "experimental.noalias.scope.decl", "prefetch"):
        return None
    if name.startswith(("mem", "experimental")):
        return f"call {name}", 1.0
    if name in REAL or name in _OF_LIBRARY:
        return f"call {name} {_NAMES[kind]}", float(lanes)
    if name.startswith("masked."):
        return ("store" if "store" in name else "load"), float(lanes)
    return "integer", pieces


def _plain(name: str) -> str:
    """A function's own name, of one that numba mangled too."""
    parts = re.findall(r"(?<=\d)([A-Za-z_][A-Za-z_]*)", name.partition("B2v")[0]) if name.startswith("_ZN") else []
    named = [each for each in parts if "clocals" not in each and "clambda" not in each]
    return named[-1] if named else name


def _width(kind: str) -> int:
    if kind in _BYTES:
        return _BYTES[kind]
    bits = int(kind[1:]) if kind.startswith("i") else 64
    return max(1, bits // 8)
