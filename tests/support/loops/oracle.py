"""The plain truth about a loop: Python runs it on arrays and numbers that note every access and operation."""

from __future__ import annotations

from rooflab.loops.read.arguments import place


class Log:
    """Accesses in order as (array, address, bytes, written), and FLOP."""

    def __init__(self):
        self.accesses = []
        self.flop = 0


def run(fn, *args):
    """(log, result) of `fn` on copies of `args`; what it writes is left in the copies, `log.arrays`."""
    import numpy as np

    log = Log()
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    copies = {name: value.copy() for name, value in zip(names, args, strict=True) if isinstance(value, np.ndarray)}
    placed = {each.name: each.address for each in place(copies)}
    given = [
        _Array(copies[name], placed[name], name, log) if name in copies else _number(value, log)
        for name, value in zip(names, args, strict=True)
    ]
    log.arrays = copies
    return log, fn(*given)


def _number(value, log):
    return _Float(value, log) if isinstance(value, float) else value


class _Array:
    def __init__(self, values, address, name, log, fixed=()):
        self.values, self.address, self.name, self.log, self.fixed = values, address, name, log, fixed
        self.shape, self.size = values.shape, values.size

    def __len__(self):
        return len(self.values)

    def _note(self, index, written):
        index = index if isinstance(index, tuple) else (index,)
        address = self.address
        for each, step, length in zip(index, self.values.strides, self.values.shape, strict=True):
            address += (each % length) * step
        self.log.accesses.append((self.name, address, self.values.itemsize, written))

    def __getitem__(self, index):
        if not isinstance(index, tuple) and self.values.ndim > 1:
            return _Row(self, index)
        self._note(index, False)
        value = self.values[index]
        return _Float(float(value), self.log) if self.values.dtype.kind == "f" else int(value)

    def __setitem__(self, index, value):
        self._note(index, True)
        self.values[index] = value


class _Row:
    """The row that a[i] is in a[i][j]: no access yet."""

    def __init__(self, array, index):
        self.array, self.index = array, index

    def __getitem__(self, j):
        return self.array[self.index, j]

    def __setitem__(self, j, value):
        self.array[self.index, j] = value


class _Float(float):
    """A number that counts what is computed with it: each operation and comparison one FLOP."""

    def __new__(cls, value, log):
        made = super().__new__(cls, value)
        made.log = log
        return made


def _operation(name):
    plain = getattr(float, name)

    def counted(self, *others):
        value = plain(self, *map(float, others))
        self.log.flop += 1
        return _Float(value, self.log) if isinstance(value, float) else value

    return counted


for _name in ["add", "sub", "mul", "truediv"]:
    for _side in ("", "r"):
        setattr(_Float, f"__{_side}{_name}__", _operation(f"__{_side}{_name}__"))
# x**2 is one multiplication; min(a, b) compares once.
for _name in ["neg", "abs", "lt", "le", "gt", "ge", "pow"]:
    setattr(_Float, f"__{_name}__", _operation(f"__{_name}__"))
