"""What a call that is timed asks for: counted where a front end can, else by hand; held against a machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.machine import Machine
    from rooflab.types.report import Report
    from rooflab.types.setting import SettingChanges

_NOT_COUNTED = (
    "no program of PyTorch, JAX, tinygrad or NumPy; give flop and bytes_moved of one call to place it under the"
    " roofs"
)


_UNCAPTURED = ("lazy", "xla")


class Call(NamedTuple):
    """A call: what is called, with what, and what it is called for people."""

    fn: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    name: str


class Counted(NamedTuple):
    """A report of a call, or why there is none.

    Attributes:
        report: on the machine where one was given; None where the call cannot be counted.
        why: it cannot; "" where it can.
    """

    report: Report | None
    why: str = ""


def by_hand(
    name: str, flop: float | None, bytes_moved: float | None, dtype: str | None, machine: Machine | None
) -> Report:
    """The report of one operation with these FLOP and bytes; under the roofs of `machine`, but not predicted.

    Raises:
        RooflabError: what is no number from zero on.
    """
    from rooflab.model.roofline.per_operation import bound_on
    from rooflab.work import counting
    from rooflab.work.by_hand import own

    report = counting.report(own.given(name, flop, bytes_moved, dtype or "fp64"), name)
    return report if machine is None else bound_on(report, machine)


def counted(call: Call, machine: Machine | None, setting: SettingChanges, *, on_cuda: bool = False) -> Counted:
    """What `call` asks for, predicted on `machine`; a program that cannot be counted is no error."""
    from rooflab import story

    values = values_of(call)
    framework = framework_of(values)
    if (device := _uncaptured(values)) is not None:
        return Counted(None, f"tensors of PyTorch on {device} are not captured; give it tensors on cpu or cuda")
    # Called again and again: the caches are as the call before left them.
    how: dict[str, Any] = dict(setting) if machine is None else {**setting, "cache": "warm"}
    try:
        if framework is None:
            return Counted(None, _NOT_COUNTED)
        if framework == "torch" and machine is None:
            how["device"] = "cuda" if on_cuda else "cpu"
        if framework == "jax" and machine is not None and "mode" not in how and not is_jitted(call.fn):
            how["mode"] = "eager"  # outside of jit each operation is dispatched by itself
        report = story.analyze(
            call.fn, *call.args, kwargs=dict(call.kwargs), machine=machine, name=call.name, **how
        )
        return Counted(report)
    except RooflabError as error:
        return Counted(None, str(error))
    except Exception as error:  # noqa: BLE001 — of the user's program as a front end runs it: timed it was all the same
        return Counted(None, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")


def _uncaptured(values: Sequence[Any]) -> str | None:
    """The device of a tensor that cannot be looked into where it is: PyTorch's own calls crash there."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    for value in values:
        if isinstance(value, torch.Tensor) and value.device.type in _UNCAPTURED:
            return str(value.device)
    return None


def values_of(call: Call) -> list[Any]:
    """What a call works on: what is called, its arguments, and what a function has from outside."""
    from rooflab.timing.finish import leaves

    values = [call.fn, *leaves((call.args, dict(call.kwargs)), 4)]
    code, cells = getattr(call.fn, "__code__", None), getattr(call.fn, "__closure__", None) or ()
    for cell in cells:
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    if code is not None:
        outside = getattr(call.fn, "__globals__", {})
        values += [outside[name] for name in code.co_names if name in outside]
    return values


def framework_of(values: Sequence[Any]) -> str | None:
    """Whose tensors, modules or jitted functions are among `values`; None where there are none, or of several.

    Arrays of NumPy count where nothing of another framework is there.
    """
    from rooflab.work import front_end

    found = front_end.frameworks_of(values)
    if not found and any(map(front_end.is_numpy, values)):
        return "numpy"
    return found[0] if len(found) == 1 else None


def is_jitted(value: Any) -> bool:
    """Whether `value` is what jax.jit gives."""
    return callable(value) and hasattr(value, "lower") and hasattr(value, "eval_shape")
