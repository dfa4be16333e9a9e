"""What an instruction of LLVM IR computes: FLOP by engine and number format."""

from __future__ import annotations

import re
from collections import Counter

from rooflab.work.formulas.functions import REAL

_FLOATING = r"(?:<(?P<lanes>\d+) x (?P<vector>double|float|half)>|(?P<scalar>double|float|half))"
_ARITHMETIC = re.compile(rf"= (?P<op>fadd|fsub|fmul|fdiv|frem|fneg|fcmp)\b(?: [a-z]+)*? {_FLOATING} ")
_INTRINSIC = re.compile(r"@llvm\.(?P<op>\w+)\.(?:v(?P<lanes>\d+))?(?P<vector>f\d+)[(.]")
_FORMATS = {"double": "fp64", "float": "fp32", "half": "fp16", "f64": "fp64", "f32": "fp32", "f16": "fp16"}
_NAMES = {
    "fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div", "frem": "fmod", "fneg": "neg", "fcmp": "lt",
    "fabs": "abs", "minnum": "min", "maxnum": "max", "rint": "round", "nearbyint": "round", "powi": "pow",
}  # fmt: skip
_TWO = ("fma", "fmuladd")
_MATHS = frozenset(REAL)


def computed(text: str) -> Counter[tuple[str, str]]:
    """FLOP of an instruction, or of a call of one of LLVM's own functions; none of anything else."""
    counted: Counter[tuple[str, str]] = Counter()
    match = _ARITHMETIC.search(text)
    op, times = "", 1
    if match:
        op, lanes, kind = match["op"], int(match["lanes"] or 1), match["vector"] or match["scalar"]
    elif match := _INTRINSIC.search(text):
        op, lanes, kind = match["op"], int(match["lanes"] or 1), match["vector"]
        times = 2 if op in _TWO else 1
        op = "add" if op in _TWO else op
    else:
        return counted
    dtype = _FORMATS.get(kind or "")
    vector, special = REAL.get(_NAMES.get(op, op), (0, 0))
    if dtype is not None:
        for engine, each in (("vector", vector), ("special", special)):
            if each:
                counted[engine, dtype] += each * lanes * times
    return counted


def power(text: str) -> Counter[tuple[str, str]]:
    """FLOP of a whole power: of x⁴ two squarings, of x³ two products; pow, where the exponent is unknown."""
    match = re.search(r"(double|float) \S+, i64 (\S+)\)", text)
    dtype = _FORMATS[match[1]] if match else "fp64"
    if match and match[2].isdigit() and int(match[2]) > 0:
        exponent = int(match[2])
        return Counter({("vector", dtype): exponent.bit_length() - 1 + exponent.bit_count() - 1})
    vector, special = REAL["pow"]
    return Counter({("vector", dtype): vector, ("special", dtype): special})


def function_flop(name: str) -> Counter[tuple[str, str]]:
    """FLOP of a function of the maths library: of "exp", of "expf"."""
    plain = name if name in _MATHS else name.removesuffix("f")
    counted: Counter[tuple[str, str]] = Counter()
    if plain in _MATHS:
        dtype = "fp32" if plain != name else "fp64"
        vector, special = REAL[plain]
        for engine, each in (("vector", vector), ("special", special)):
            if each:
                counted[engine, dtype] += each
    return counted
