"""A compiled function once more, with its sums in any order: of the IR that numba lowered it to, not lowered anew.

What numba's `fastmath=True` sets is set in the text of that IR, which is then optimised and not run.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba.core.codegen import JITCodeLibrary

# Operations and calls that numba sets its flags at (numba/core/fastmathpass.py), where they have none.
_OPERATION = re.compile(r"(= (?:fadd|fsub|fmul|fdiv|frem) )(?=double |float )|(= fcmp )(?=[ou]\w\w )")
_CALLED = re.compile(r"(= (?:tail )?call )(?=(?:double|float) @)")
_FUNCTION = re.compile(r"^define .*?^}$", re.MULTILINE | re.DOTALL)


class Noted:
    """While it is entered, what a function of that name is lowered to is noted before LLVM optimises it."""

    def __init__(self, name: str) -> None:
        self.name, self.ir = name, ""
        self._held: Any = None
        self._before: Any = None

    def __enter__(self) -> Noted:
        library: Any = JITCodeLibrary
        optimize = self._before = library._optimize_final_module

        def noted(one: Any) -> None:
            if one.name == self.name and not self.ir:
                self.ir, self._held = str(one._final_module), one
            optimize(one)

        library._optimize_final_module = noted
        return self

    def __exit__(self, *_: object) -> None:
        library: Any = JITCodeLibrary
        library._optimize_final_module = self._before

    def optimised(self) -> str:
        """Its optimised IR with sums in any order; "" where nothing was noted."""
        if not self.ir:
            return ""
        one = self._held._codegen.create_library(self.name)
        one._final_module = binding.parse_assembly(in_any_order(self.ir, self.name))
        one._optimize_final_module()
        return str(one._final_module)


def in_any_order(ir: str, name: str) -> str:
    """`ir` with the flag "fast" at the arithmetic of the functions whose names hold `name`."""

    def changed(match: re.Match[str]) -> str:
        header = match[0].partition("\n")[0]
        if name not in header:
            return match[0]
        flagged = _OPERATION.sub(lambda each: f"{each[0]}fast ", match[0])
        return _CALLED.sub(lambda each: f"{each[0]}fast ", flagged)

    return _FUNCTION.sub(changed, ir)


def place(module: str, types: tuple[Any, ...]) -> Path:
    """Where such IR of a generated module is left for another process, for arguments of `types`."""
    digest = hashlib.sha256("|".join(str(each) for each in types).encode()).hexdigest()[:12]
    path = Path(module)
    return path.with_name(f"{path.stem}_{digest}.ll")
