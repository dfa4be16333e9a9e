"""The operations of latent and of compressed attention in a graph of a language model."""

from __future__ import annotations

from rooflab.work.llm.graph_maker import Maker
from rooflab.work.llm.mixers import Compressed, Latent


def latent(make: Maker, hidden: int, a: Latent, x: int, module: str) -> int:
    """Keys and values expanded from the latent vectors of all tokens, but for one token at a time."""
    rows, form, size = make.tokens, make.precision.attention, a.plain + a.rotary
    if a.q_rank:
        low = make.linear(x, rows, (a.q_rank,), hidden, f"{module}.q_a", form)[0]
        low = make.norm(low, a.q_rank, False, f"{module}.q_norm")
        make.linear(low, rows, (a.heads * size,), a.q_rank, f"{module}.q_b", form)
    else:
        make.linear(x, rows, (a.heads * size,), hidden, f"{module}.q", form)
    latent = make.tensor((rows, a.kv_rank), "bf16")
    if not a.borrows:
        make.linear(x, rows, (a.kept,), hidden, f"{module}.kv_a", form)
        latent = make.norm(latent, a.kv_rank, False, f"{module}.kv_norm")
    if a.gate:
        make.linear(x, rows, (a.heads * a.gate,), hidden, f"{module}.gate", form)
    seen = make.sequences * (make.before + make.new)
    if make.new == 1 and make.before:
        # One token: q meets the latent vectors themselves, by way of the same weights.
        return _absorbed(make, hidden, a, rows, module)
    if make.before:
        latent = make.tensor((seen, a.kv_rank), "bf16", role="buffer", name=f"{module}.latent_cache")
    make.linear(latent, seen, (a.heads * (a.plain + a.values),), a.kv_rank, f"{module}.kv_b", form)
    out = make.attend(a.heads, a.heads, size, a.values, 0, True, module, kept=False)
    if a.gate:
        out = make.pointwise("mul", (out, make.tensor(make.tensors[out].shape, "bf16")), f"{module}.gate")
    flat = make.tensor((rows, a.heads * a.values), "bf16", storage=make.tensors[out].storage)
    return make.linear(flat, rows, (hidden,), a.heads * a.values, f"{module}.out", make.precision.of_result)[0]


def _absorbed(make: Maker, hidden: int, a: Latent, rows: int, module: str) -> int:
    half = make.precision.embedding
    q = make.tensor((a.heads, rows, a.plain), "bf16")
    keys = make.weight((a.heads, a.plain, a.kv_rank), half, f"{module}.kv_b.k")
    out = make.tensor((a.heads, rows, a.kv_rank), "bf16")
    make.op("bmm", "matmul", (q, keys), (out,), module=f"{module}.kv_b", k=a.plain)
    shape = (make.sequences, 1, make.before + 1, a.kv_rank + a.rotary)
    kept = make.tensor(shape, "bf16", role="buffer", name=f"{module}.latent_cache")
    met = make.tensor((make.sequences, a.heads, 1, a.kv_rank + a.rotary), "bf16")
    values = make.tensor(
        (make.sequences, 1, make.before + 1, a.kv_rank), "bf16", storage=make.tensors[kept].storage, role="buffer"
    )
    mixed = make.tensor((make.sequences, a.heads, 1, a.kv_rank), "bf16")
    make.op(
        "attention",
        "attention",
        (met, kept, values),
        (mixed,),
        module=module,
        causal=True,
        causal_from="bottom_right",
        v_in_k=True,
    )
    low = make.tensor((a.heads, rows, a.kv_rank), "bf16", storage=make.tensors[mixed].storage)
    weights = make.weight((a.heads, a.kv_rank, a.values), half, f"{module}.kv_b.v")
    high = make.tensor((a.heads, rows, a.values), "bf16")
    make.op("bmm", "matmul", (low, weights), (high,), module=f"{module}.kv_b", k=a.kv_rank)
    if a.gate:
        high = make.pointwise("mul", (high, make.tensor((a.heads, rows, a.values), "bf16")), f"{module}.gate")
    flat = make.tensor((rows, a.heads * a.values), "bf16", storage=make.tensors[high].storage)
    return make.linear(flat, rows, (hidden,), a.heads * a.values, f"{module}.out", make.precision.of_result)[0]


def compressed(make: Maker, hidden: int, a: Compressed, x: int, module: str) -> int:
    """Queries over the window's keys and those of the blocks before them, and the indexer's over all blocks.

    A prompt's queries see more blocks the later they are: as many as in the mean.
    """
    rows, form = make.tokens, make.precision.attention
    low = make.linear(x, rows, (a.q_rank,), hidden, f"{module}.q_a", form)[0]
    low = make.norm(low, a.q_rank, False, f"{module}.q_norm")
    make.linear(low, rows, (a.heads * a.size,), a.q_rank, f"{module}.q_b", form)
    key = make.linear(x, rows, (a.size,), hidden, f"{module}.kv", form)[0]
    make.norm(key, a.size, False, f"{module}.kv_norm")
    turned = make.tensor((rows, a.heads + 1, a.rotary), "bf16")
    make.pointwise("rope", (turned,), f"{module}.rope")
    seen = make.before + (make.new + 1) / 2
    if a.rate:
        parts = make.linear(x, rows, (a.pooled, a.pooled), hidden, f"{module}.blocks", form)
        weighed = make.tensor((rows, a.pooled), "bf16", storage=make.tensors[parts[0]].storage)
        make.pointwise("mul", (weighed, make.tensor((rows, a.pooled), "bf16")), f"{module}.blocks")
    blocks = int(seen // a.rate) if a.rate else 0
    if a.index_heads:
        make.linear(low, rows, (a.index_heads * a.index_size,), a.q_rank, f"{module}.index.q", form)
        make.linear(x, rows, (a.index_heads,), hidden, f"{module}.index.weights", form)
        if blocks:
            q = make.tensor((make.sequences, make.new * a.index_heads, a.index_size), "bf16")
            keys = make.tensor((make.sequences, a.index_size, blocks), "bf16", role="buffer")
            scores = make.tensor((make.sequences, make.new * a.index_heads, blocks), "fp32")
            make.op("bmm", "matmul", (q, keys), (scores,), module=f"{module}.index", k=a.index_size)
    if a.index_top:
        blocks = min(blocks, a.index_top)
    out = make.attend(a.heads, 1, a.size, a.size, a.window, True, module, v_in_k=True)
    if blocks:
        name = f"{module}.blocks"
        out = make.attend(a.heads, 1, a.size, a.size, 0, False, name, keys=blocks, v_in_k=True)
    groups, each = a.groups, a.heads * a.size // a.groups
    grouped = make.tensor((groups, rows, each), "bf16", storage=make.tensors[out].storage)
    weights = make.weight((groups, each, a.out_rank), form, f"{module}.out_a")
    joined = make.tensor((groups, rows, a.out_rank), "bf16")
    make.op("bmm", "matmul", (grouped, weights), (joined,), module=f"{module}.out_a", k=each)
    flat = make.tensor((rows, groups * a.out_rank), "bf16", storage=make.tensors[joined].storage)
    return make.linear(flat, rows, (hidden,), groups * a.out_rank, f"{module}.out", make.precision.of_result)[0]
