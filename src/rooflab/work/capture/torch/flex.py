"""Flex attention: recorded as one operator, forward and backward, and counted by what its mask keeps.

The kernel works on blocks of queries and keys (128 × 128 by default): a block in which any pair passes the mask
is computed whole, others not at all. That is what is counted; how many pairs pass is said beside it. On meta
tensors the mask, a function of positions, is asked on a CPU. Where it needs data that is not there, the full
square is counted and said.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from rooflab.work.capture.torch.plans import Plan

_flex: Any = importlib.import_module("torch.nn.attention.flex_attention")
_operators: Any = importlib.import_module("torch._higher_order_ops.flex_attention")
_below_autograd: Any = torch._C._AutoDispatchBelowAutograd

CONVENTION = "flex_attention: blocks that its mask keeps count whole, as its kernel computes them"
_MOST_PAIRS = 1 << 31  # that a mask is asked about: some ten seconds
_PAIRS_AT_ONCE = 1 << 22


class Kept(NamedTuple):
    """What a block mask keeps.

    Attributes:
        pairs: (query, key) pairs in blocks that are computed, over batch and query heads.
        passing: pairs that pass the mask; None where it cannot be asked.
        blocks, of_blocks: computed blocks, and all of one square, over the mask's own batch and heads.
        key_share: share of the keys that any query sees.
        longest, shortest: keys of the computed blocks in a row of blocks, at most and at least.
    """

    pairs: int
    passing: int | None
    blocks: int
    of_blocks: int
    key_share: float
    longest: int
    shortest: int


class UnknownMaskError(Exception):
    """A mask whose blocks cannot be known; the message says why."""


@_disable_current_modes()
def kept(query: torch.Tensor, key: torch.Tensor, block_mask: tuple) -> Kept | None:
    """What `block_mask` (as BlockMask.as_tuple gives it) keeps; None where it masks nothing.

    Raises:
        UnknownMaskError: its blocks lie in tensors without data, and its function needs data too.
    """
    tall, wide, mask_mod = *block_mask[-3:-1], block_mask[-1]
    queries, keys = query.shape[-2], key.shape[-2]
    if min(tall, wide) >= _flex._LARGE_SPARSE_BLOCK_SIZE:  # given no mask, flex_attention makes one block of all
        return None
    counts, indices = block_mask[2], block_mask[3]
    asked = None
    if _has_data(counts):
        partial, full = _dense(counts, indices), _dense(block_mask[4], block_mask[5])
        computed = partial if full is None else partial | full
        with contextlib.suppress(UnknownMaskError):  # then only the blocks are known
            asked = _asked(mask_mod, computed.shape[:2], queries, keys, tall, wide)
        passing = None if asked is None else int((asked * computed).sum())
    else:
        if mask_mod is _flex.noop_mask:
            raise UnknownMaskError("the blocks of its BlockMask are given by meta tensors")
        asked = _asked(mask_mod, counts.shape[:2], queries, keys, tall, wide)
        computed, passing = asked > 0, int(asked.sum())
    heights, widths = _sizes(queries, tall, computed.shape[-2]), _sizes(keys, wide, computed.shape[-1])
    rows = (computed * widths).sum(-1)  # keys in each row of blocks
    repeat = query.shape[0] * query.shape[1] // (computed.shape[0] * computed.shape[1])
    seen = (computed.any(-2) * widths).sum() / max(1, keys * computed.shape[0] * computed.shape[1])
    return Kept(
        pairs=int((rows * heights).sum()) * repeat,
        passing=None if passing is None else passing * repeat,
        blocks=int(computed.sum()),
        of_blocks=computed.numel(),
        key_share=float(seen),
        longest=int(rows.max()) if rows.numel() else 0,
        shortest=int(rows.min()) if rows.numel() else 0,
    )


def _has_data(tensor: torch.Tensor) -> bool:
    return not tensor.is_meta and not isinstance(tensor, FakeTensor)


def _sizes(length: int, block: int, count: int) -> torch.Tensor:
    """Positions in each of `count` blocks of `block`: the last may be cut short, those beyond it are empty."""
    return torch.tensor([max(0, min(block, length - at * block)) for at in range(count)])


def _dense(counts: Any, indices: Any) -> Any:
    """Which blocks a list of them names: bool of batch, heads, rows, columns; None where there is no list."""
    if counts is None:
        return None
    counts, indices = counts.cpu().long(), indices.cpu().long()
    columns = indices.shape[-1]
    named = torch.arange(columns) < counts[..., None]
    marks = torch.zeros((*counts.shape, columns), dtype=torch.int64)
    return marks.scatter_add_(-1, indices.clamp(0, columns - 1), named.long()) > 0


def _asked(
    mask_mod: Callable[..., Any], lead: torch.Size, queries: int, keys: int, tall: int, wide: int
) -> torch.Tensor:
    """Pairs that pass in each block, by asking the mask for every pair: int64 of batch, heads, rows, columns.

    Raises:
        UnknownMaskError: it needs data that is not there, fails, or there are too many pairs to ask.
    """
    if lead.numel() * queries * keys > _MOST_PAIRS:
        raise UnknownMaskError(f"its mask has more than {_MOST_PAIRS:.0e} pairs to ask; make it on a CPU")
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    rows, columns = -(-queries // tall), -(-keys // wide)
    counts = torch.zeros((*lead, rows, columns), dtype=torch.int64)
    step = max(1, _PAIRS_AT_ONCE // max(1, tall * keys))
    of_all = _flex._vmap_for_bhqkv(mask_mod, prefix=())
    with torch.device("cpu"), torch.no_grad(), TransformGetItemToIndex():
        at_keys = torch.arange(keys)
        for number in range(lead.numel()):
            batch, head = divmod(number, lead[1])
            for row in range(0, rows, step):
                at = torch.arange(row * tall, min(queries, (row + step) * tall))
                try:
                    mask = of_all(torch.tensor([batch]), torch.tensor([head]), at, at_keys)[0, 0]
                except Exception as error:  # the user's own function: whatever it raises says why
                    raise UnknownMaskError(
                        f"its mask cannot be asked without data: {_first_line(error)}"
                    ) from error
                if not _has_data(mask):
                    raise UnknownMaskError("its mask depends on tensors without data")
                padded = torch.nn.functional.pad(mask, (0, columns * wide - keys, 0, -len(at) % tall))
                blocks = padded.unflatten(1, (columns, wide)).unflatten(0, (-1, tall))
                counts[batch, head, row : row + step] = blocks.sum((1, 3))
    return counts


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _Flex(torch.autograd.Function):
    """Both operators, without the tracing of functions that PyTorch's own needs for its kernel."""

    @staticmethod
    def forward(
        ctx: Any, query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any, how: Any
    ) -> Any:
        with _below_autograd():
            out, lse, highest = _operators.flex_attention(query, key, value, score_mod, block_mask, scale, how)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.how = score_mod, block_mask, scale, how
        ctx.mark_non_differentiable(highest)
        ctx.set_materialize_grads(False)
        return out, lse, highest

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        query, key, value, out, lse = ctx.saved_tensors
        score_mod, block_mask, scale, how = ctx.how
        with _below_autograd():
            result = _operators.flex_attention_backward(
                *(query, key, value, out, lse, grads[0], grads[1]),
                *(score_mod, score_mod, block_mask, scale, how, (), ()),
            )
        return *result[:3], None, None, None, None


def _plain(
    query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any, kernel_options: Any, *_more: Any
) -> Any:
    """What flex_attention calls for its operator while capturing."""
    return _Flex.apply(query, key, value, score_mod, block_mask, scale, kernel_options)


def _any_device(query: Any, key: Any, value: Any) -> None:
    """Any device will do where nothing is computed."""


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Let flex_attention run uncompiled, on meta tensors, and backward on a CPU; then as it was."""
    instead = {
        "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,  # else it insists on being compiled
        "_validate_device": _any_device,
        "flex_attention_hop": _plain,
    }
    before = {name: getattr(_flex, name) for name in instead}
    for name, other in instead.items():
        setattr(_flex, name, other)
    try:
        yield
    finally:
        for name, other in before.items():
            setattr(_flex, name, other)


def _planned(name: str, kind: str, outputs: tuple[int, ...]) -> Plan:
    return Plan(
        name=name,
        kind=kind,
        inputs=None,
        outputs=outputs,
        written=(),
        skip=frozenset(),
        fixed={"flexible": True},
        derived=(),
        recipe=None,
        places={},
        whole=True,
    )


_FORWARD = _planned("flex_attention", "attention", (0, 1))
_BACKWARD = _planned("flex_attention_backward", "attention_backward", (0, 1, 2))


def _attributes(recorder: Any, query: Any, key: Any, block_mask: tuple) -> dict[str, Any]:
    """What is known of the mask, as attributes of the formula; what is not is noted."""
    try:
        known = kept(query, key, block_mask)
    except UnknownMaskError as error:
        _say(recorder.unknown, f"flex_attention: {error}; the full square is counted")
        return {}
    if known is None:
        return {}
    _say(recorder.conventions, CONVENTION)
    passing = "" if known.passing is None else f"; {known.passing} of its {known.pairs} pairs pass the mask"
    return {
        "pairs": known.pairs,
        "key_share": known.key_share,
        "longest": known.longest,
        "shortest": known.shortest,
        "mask_note": f"{known.blocks} of {known.of_blocks} blocks are computed{passing}",
    }


def _say(words: list[str], one: str) -> None:
    if one not in words:
        words.append(one)


def _forward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    query, key, value = args[:3]
    if _has_data(query):
        with _disable_current_modes():
            out = func(*args, **kwargs)
    else:
        wide = query.new_empty((*query.shape[:-1], value.shape[-1]))
        out = wide, *(query.new_empty(query.shape[:-1], dtype=torch.float32) for _ in range(2))
    plan = _FORWARD._replace(fixed={**_FORWARD.fixed, **_attributes(recorder, query, key, args[4])})
    recorder.note(plan, (query, key, value), {}, out)
    return out


def _backward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    query, key, value, out, lse, grad = args[:6]
    if _has_data(query):
        with _disable_current_modes():
            gradients = _gradients(args)
    else:
        gradients = tuple(torch.empty_like(one) for one in (query, key, value))
    plan = _BACKWARD._replace(fixed={**_BACKWARD.fixed, **_attributes(recorder, query, key, args[9])})
    cells = getattr(args[7], "__closure__", None) or ()
    if any(isinstance(one.cell_contents, torch.Tensor) and one.cell_contents.requires_grad for one in cells):
        _say(recorder.unknown, "flex_attention: gradients of tensors that its score_mod captures are not counted")
    recorder.note(plan, (grad, query, key, value, out, lse), {}, gradients)
    return *gradients, ()


@contextlib.contextmanager
def autograd_on() -> Iterator[None]:
    """Autograd on again below autograd, for a computation of its own."""
    core: Any = torch._C
    left_out = core._dispatch_tls_local_exclude_set()
    for name in core.DispatchKey.__members__:
        if name.startswith("Autograd"):
            left_out = left_out.remove(getattr(core.DispatchKey, name))
    with core._ForceDispatchKeyGuard(core._dispatch_tls_local_include_set(), left_out):
        yield


def _gradients(args: tuple) -> tuple[torch.Tensor, ...]:
    """The gradients of real tensors, by differentiating PyTorch's own plain form."""
    with autograd_on(), torch.enable_grad():
        leaves = [one.detach().requires_grad_() for one in args[:3]]
        out, lse, _ = _operators.math_attention(*leaves, args[7], args[9], args[10], args[11])
        grads = [(out, args[5]), (lse, args[6])]
        asked = [(one, grad) for one, grad in grads if grad is not None]
        results, given = [one for one, _ in asked], [cast(Any, grad) for _, grad in asked]
        return torch.autograd.grad(results, leaves, given)


HANDLERS: dict[str, Callable[..., Any]] = {"flex_attention": _forward, "flex_attention_backward": _backward}
