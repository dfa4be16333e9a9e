"""Control flow that PyTorch keeps as one operator: cond, while_loop, scan, map.

A branch is followed where its predicate is known, else both are, each named. A loop's body is followed once per
trip where trips are decided by values that are there; a scan's body once, counted as often as it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rooflab.errors import RooflabError
from rooflab.work.capture.torch import flex


@contextlib.contextmanager
def _inside(recorder: Any, times: int = 1, branch: str | None = None) -> Iterator[None]:
    """Record what follows as run `times` as often, in `branch`."""
    before = recorder.count, recorder.branch
    recorder.count *= times
    recorder.branch = " in ".join(one for one in (branch, recorder.branch) if one) or None
    try:
        with recorder:
            yield
    finally:
        recorder.count, recorder.branch = before


def _known(recorder: Any, predicate: Any) -> bool | None:
    """The truth of a predicate; None where it depends on data that is not there."""
    if not isinstance(predicate, torch.Tensor):
        return bool(predicate)
    try:
        with recorder:
            return bool(predicate.item())
    except RooflabError:
        return None


def _cond(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    predicate, *branches, operands = args
    truth = _known(recorder, predicate)
    if truth is not None:
        with _inside(recorder):
            return branches[0 if truth else 1](*operands)
    results, spans = [], []
    for number, branch in enumerate(branches, 1):
        start = len(recorder)
        with _inside(recorder, branch=f"cond {number} of 2"):
            results.append(branch(*operands))
        spans.append(range(start, len(recorder)))
    recorder.choices.append(spans)
    recorder.unknown.append(
        "cond: its predicate needs data; the costlier branch counts, the other has a count of 0"
    )
    return results[0]


def _while(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    goes_on, body, carried, more = args
    trips = 0
    while True:
        with _inside(recorder):
            predicate = goes_on(*carried, *more)
        truth = _known(recorder, predicate)
        if truth is False:
            return carried
        with _inside(recorder):
            carried = body(*carried, *more)
        trips += 1
        if truth is None:
            recorder.unknown.append(f"while_loop: its trip count needs data; {trips} recorded")
            return carried


def _scan(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    combine, start, xs, *rest = args
    more = rest[0] if rest else ()
    trips = xs[0].shape[0]
    with _inside(recorder, trips):
        out = combine(*start, *(one[0] for one in xs), *more)
    if not any(one.is_meta for one in (*start, *xs)):
        return func(*args, **kwargs)
    carried, results = out[: len(start)], out[len(start) :]
    return [*carried, *(_stacked(one, trips) for one in results)]


def _map(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    body, xs, more = args
    trips = xs[0].shape[0]
    with _inside(recorder, trips):
        out = body(*(one[0] for one in xs), *more)
    if not any(one.is_meta for one in xs):
        return func(*args, **kwargs)
    return pytree.tree_map(lambda one: _stacked(one, trips), out)


def _stacked(one: torch.Tensor, times: int) -> torch.Tensor:
    return one.new_empty((times, *one.shape))


def _out_dtype(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """An operator whose result has another number format, as int8 products summed in int32."""
    op, dtype, *rest = args
    if not any(isinstance(one, torch.Tensor) and one.is_meta for one in rest):
        return NotImplemented
    result = op(*rest, **kwargs).to(dtype)
    recorder.note(recorder.plan(op), tuple(rest), kwargs, result)
    return result


def regions() -> dict[Any, Callable[..., Any]]:
    """Operator → how it is followed, for those that this PyTorch has."""
    handlers = {
        "cond": _cond,
        "while_loop": _while,
        "scan": _scan,
        "map_impl": _map,
        "out_dtype": _out_dtype,
        **flex.HANDLERS,
    }
    from torch._higher_order_ops import cond, map, out_dtype, scan, while_loop  # noqa: F401  registers them

    operators = torch.ops.higher_order
    return {getattr(operators, name): one for name, one in handlers.items() if hasattr(operators, name)}
