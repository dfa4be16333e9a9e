"""Attention: which queries meet which keys, and what that costs fused and unfused, forward and backward."""

from __future__ import annotations

import math
from typing import NamedTuple

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.work import Cost, Flop, TensorSpec
from rooflab.work.formulas.cost_terms import cost_of, item_bytes, matrix, number_format, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

LAYOUTS = ("bhsd", "bshd", "thd")
CAUSAL_FROM = ("top_left", "bottom_right")


MASKED = "a mask hides pairs and skips none: the full square is computed"


class Meeting(NamedTuple):
    """Queries and keys of all sequences and query heads.

    Attributes:
        pairs: (query, key) pairs that are not masked out by position, times query heads.
        square: all pairs, times query heads: what an unfused kernel computes and stores.
        queries: query rows, times query heads.
        query_share: share of q's tokens that belong to a sequence (under 1 with padding and lengths).
        key_share: share of k's and v's tokens that any query sees.
        qk_size, v_size: length of a query or key, and of a value.
    """

    pairs: int
    square: int
    queries: int
    query_share: float
    key_share: float
    qk_size: int
    v_size: int


def visible_pairs(
    queries: int,
    keys: int,
    *,
    causal: bool = False,
    causal_from: str = "top_left",
    window: int | None = None,
    window_right: int | None = None,
) -> tuple[int, int]:
    """(pairs, keys seen): how many (query, key) pairs attend, and how many keys any query sees. Exact.

    A query at position p (its index; with "bottom_right" the last query stands at the last key) sees the
    keys p − window + 1 … p + window_right. Causal: S(S+1)/2 pairs; a window of w: w(w+1)/2 + (S − w)·w.

    Args:
        window: keys seen to the left, its own included; None for all. A window without `window_right`
            looks only back, as FlashAttention's window_size=(w − 1, 0).
        window_right: keys seen to the right of its own; None for all (none if causal).

    Raises:
        UnknownNameError: a `causal_from` that is neither "top_left" nor "bottom_right".
        RooflabError: a window under 1.
    """
    if causal_from not in CAUSAL_FROM:
        raise UnknownNameError("causal_from of attention", causal_from, CAUSAL_FROM)
    if window is not None and window < 1:
        raise RooflabError(f"attention: window is {window}, expected 1 or more keys (its own included) or None")
    if queries == 0 or keys == 0:
        return 0, 0
    offset = keys - queries if causal_from == "bottom_right" else 0
    left = window - 1 if window is not None else queries + keys
    right = window_right if window_right is not None else queries + keys
    if causal or (window is not None and window_right is None):
        right = 0

    def clamped_sum(first: int) -> int:
        """Σ over the queries i of (first + i) held between 0 and `keys`."""
        return _ramp(first + queries, keys) - _ramp(first, keys)

    pairs = clamped_sum(offset + right + 1) - clamped_sum(offset - left)
    first_seen = min(max(offset - left, 0), keys)
    end_seen = min(max(offset + queries + right, 0), keys)
    return pairs, end_seen - first_seen


def _ramp(count: int, top: int) -> int:
    """Σ of min(m, top) over 0 ≤ m < count."""
    if count <= 0:
        return 0
    if count <= top + 1:
        return count * (count - 1) // 2
    return top * (top + 1) // 2 + (count - top - 1) * top


def unfused_score_bytes(inputs: Specs, attrs: Attrs) -> float:
    """Bytes of all scores, as an unfused kernel of these inputs and attributes stores them."""
    q, k, v = inputs[:3]
    return _meeting(q, k, v, attrs).square * item_bytes(q)


@formula("attention")
def attention(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of softmax(q·kᵀ)·v.

    Matrix FLOP = 2 × pairs × (qk size + v size), pairs over query heads: 4·B·H·S²·D for full attention; keys
    and values shared by several query heads (GQA, MQA) change bytes, not FLOP. Softmax, in fp32 where the
    operands are shorter: per pair max, subtract, add (vector) and exp (special), the scale folded into the
    exponent; a division per output element (fused) or per pair (unfused); one addition per pair for an
    additive mask, two multiplications for dropout.

    Fused (Dao et al.: "FlashAttention", arXiv:2205.14135): q, k, v read once, the output written once;
    pairs out of sight are neither computed nor, where no query sees a key, read. Unfused: q·kᵀ, softmax and
    P·v each cross memory: the whole square is computed and written and read twice (8N² + 8Nd bytes of fp16
    per head); dropout reads and writes it once more, with a byte of mask.

    Accessed bytes: fused, one thread per query: q once, a row of k and one of v per pair, the mask per
    pair. Unfused: two operands per multiply-add, three passes of softmax.

    Args:
        inputs: q, k, v[, mask][, lengths, block tables …: read once].
        outputs: out[, logsumexp …].
        attrs: layout "bhsd" (B, H, S, D; default), "bshd" or "thd" (tokens, H, D: with lengths); kv_layout
            (of k and v, where another: a paged cache is "bshd" of blocks); causal
            (counted exactly); causal_from "top_left" (default) or "bottom_right"; window, window_right
            (see `visible_pairs`); mask, dropout (bool); fused (True); lengths: (queries, keys) of each
            sequence; v_in_k: v is a part of k, read with it (MLA's latent cache); pairs, key_share: pairs over
            all query heads, and the share of the keys that any sees, where a mask was counted (mask_note
            says how); compute: number format of the products, where not q's.
    """
    q, k, v = inputs[:3]
    met = _meeting(q, k, v, attrs)
    mask = inputs[3] if attrs.get("mask") else None
    fused = attrs.get("fused", True)
    pairs = met.pairs if fused else met.square
    fma = pairs * (met.qk_size + met.v_size)
    flop = matrix(fma, attrs.get("compute") or q.dtype) + _softmax_flop(q, pairs, met, attrs, mask)
    operands = _operand_bytes(q, k, v, met, attrs) + total_bytes(inputs[3:])
    write = total_bytes(outputs)
    mask_loads = pairs * item_bytes(mask) if mask is not None else 0
    if fused:
        per_pair = met.qk_size * item_bytes(k) + met.v_size * item_bytes(v)
        loaded = q.nbytes * met.query_share + pairs * per_pair + mask_loads
        return cost_of(flop, read=operands, write=write, loaded=loaded, note=_note(attrs))
    square = met.square * item_bytes(q)
    mask_bytes = met.square if attrs.get("dropout") else 0  # one byte each
    crossings = 3 if attrs.get("dropout") else 2
    loads_qk = met.square * met.qk_size * (item_bytes(q) + item_bytes(k))
    loads_pv = met.square * met.v_size * (item_bytes(q) + item_bytes(v))
    return cost_of(
        flop,
        read=operands + crossings * square,
        write=write + crossings * square + mask_bytes,
        loaded=loads_qk + loads_pv + (crossings + 1) * square + mask_loads,
        stored=write + crossings * square + mask_bytes,
        note=_note(attrs),
    )


@formula("attention_backward")
def attention_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of attention's gradients.

    Fused: five products per pair, q·kᵀ again, Pᵀ·dO, dO·vᵀ, dS·k, dSᵀ·q: 2.5 × forward for equal sizes
    (Dao: "FlashAttention-2", arXiv:2307.08691). Unfused: four, P having been kept. Softmax: per pair
    subtract and exp for P (fused), subtract and multiply for dS; sum(dO·O) a multiply-add per output element
    (unfused: the multiply, add, subtract, multiply of softmax's gradient per pair).

    Fused bytes: each operand read once, each gradient written once. Unfused: dO and P read twice, dP once,
    dS twice; dP and dS written.

    Args:
        inputs: dO, q, k, v, out[, logsumexp, mask …]. outputs: dq, dk, dv, those asked for.
        attrs: as `attention`.
    """
    grad, q, k, v = inputs[:4]
    met = _meeting(q, k, v, attrs)
    fused = attrs.get("fused", True)
    pairs = met.pairs if fused else met.square
    fma = pairs * ((3 if fused else 2) * met.qk_size + 2 * met.v_size)
    dropout = 2 * pairs if attrs.get("dropout") else 0
    if fused:
        vector, special = 3 * pairs + 2 * met.queries * met.v_size, pairs
    else:
        vector, special = 4 * pairs, 0
    flop = matrix(fma, attrs.get("compute") or q.dtype)
    flop += scalar_flop(_softmax_dtype(q), vector + dropout, special)
    operands = grad.nbytes * met.query_share + _operand_bytes(q, k, v, met, attrs) + total_bytes(inputs[4:])
    write = total_bytes(outputs)
    if fused:
        # one thread per query and, for dk and dv, one per key: each reads the other side's rows per pair
        rows = met.qk_size * (item_bytes(q) + item_bytes(k)) + met.v_size * (item_bytes(v) + item_bytes(grad))
        return cost_of(
            flop,
            read=operands,
            write=write,
            loaded=pairs * rows + operands,
            note=_note(attrs) + "; q·kᵀ computed again: five products",
        )
    square = met.square * item_bytes(q)
    out = inputs[4:5]  # sum(dO·O) is taken from P and dP instead
    read = operands - total_bytes(out) + grad.nbytes * met.query_share + 5 * square
    return cost_of(
        flop,
        read=read,
        write=write + 2 * square,
        loaded=fma * 2 * item_bytes(q) + 4 * square,
        stored=write + 2 * square,
        note=_note(attrs) + "; P kept from forward: four products",
    )


def _meeting(q: TensorSpec, k: TensorSpec, v: TensorSpec, attrs: Attrs) -> Meeting:
    layout = attrs.get("layout", "bhsd")
    batch, heads, queries = _sizes(q, layout)
    key_batch, _, keys = _sizes(k, attrs.get("kv_layout", layout))
    sight = {name: attrs[name] for name in ("causal", "causal_from", "window", "window_right") if name in attrs}
    lengths = attrs.get("lengths") or ((queries, keys),)
    repeat = 1 if attrs.get("lengths") else batch
    pairs = square = rows = seen = 0
    for sequence_queries, sequence_keys in lengths:
        here, keys_seen = visible_pairs(sequence_queries, sequence_keys, **sight)
        pairs += here * repeat
        square += sequence_queries * sequence_keys * repeat
        rows += sequence_queries * repeat
        seen += keys_seen * repeat
    share = min(1.0, seen / (key_batch * keys)) if key_batch * keys else 1.0
    return Meeting(
        pairs=attrs.get("pairs", pairs * heads),
        square=square * heads,
        queries=rows * heads,
        query_share=rows / (batch * queries) if batch * queries else 1.0,
        key_share=attrs.get("key_share", share),
        qk_size=q.shape[-1],
        v_size=v.shape[-1],
    )


def _sizes(spec: TensorSpec, layout: str) -> tuple[int, int, int]:
    """(batch, heads, sequence) of a tensor in its layout."""
    shape = spec.shape
    if layout == "thd":
        return 1, shape[-2], math.prod(shape[:-2])
    if layout == "bshd":
        return math.prod(shape[:-3]), shape[-2], shape[-3]
    if layout == "bhsd":
        return math.prod(shape[:-3]), shape[-3], shape[-2]
    raise UnknownNameError("layout of attention", layout, LAYOUTS)


def _operand_bytes(q: TensorSpec, k: TensorSpec, v: TensorSpec, met: Meeting, attrs: Attrs) -> float:
    """Bytes of q, k and v that are read: of keys and values, what any query sees; one tensor given twice once."""
    share = met.key_share if attrs.get("fused", True) else 1.0
    parts = [(q, met.query_share), (k, share), (v, 0.0 if attrs.get("v_in_k") else share)]
    largest: dict[int, tuple[TensorSpec, float]] = {}
    for place, (spec, part) in enumerate(parts):
        key = id(spec) if spec.storage >= 0 else -place
        if key not in largest or part > largest[key][1]:
            largest[key] = (spec, part)
    return sum(spec.nbytes * part for spec, part in largest.values())


def _softmax_dtype(q: TensorSpec) -> str:
    """Softmax runs in fp32, or in fp64 for fp64."""
    return "fp64" if number_format(q.dtype).name == "fp64" else "fp32"


def _softmax_flop(
    q: TensorSpec, pairs: int, met: Meeting, attrs: Attrs, mask: TensorSpec | None
) -> tuple[Flop, ...]:
    vector = 3
    if mask is not None and number_format(mask.dtype).name != "bool":
        vector += 1
    if attrs.get("dropout"):
        vector += 2
    divisions = met.queries * met.v_size if attrs.get("fused", True) else pairs
    return scalar_flop(_softmax_dtype(q), vector * pairs, pairs + divisions)


def _note(attrs: Attrs) -> str:
    fused = "fused: scores stay on chip" if attrs.get("fused", True) else "unfused: all scores cross memory"
    if not attrs.get("fused", True):
        return fused
    if attrs.get("mask_note"):
        return f"{fused}; {attrs['mask_note']}"
    if attrs.get("window") is not None:
        return f"{fused}; window of {attrs['window']} counted exactly"
    if attrs.get("causal"):
        return f"{fused}; causal counted exactly"
    return f"{fused}; {MASKED}" if attrs.get("mask") else fused
