"""A language model's prefill or decode as a `Graph`, from its architecture alone.

One operation for each product, attention, norm, activation and residual; heads, experts and windows as the model
has them. Engines and layouts make other kernels of it: see `model.serving`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.work import Graph
from rooflab.work.llm import graph_latent, graph_streams
from rooflab.work.llm.architecture import Architecture, Block, Experts, Mlp, Tower
from rooflab.work.llm.formats import WeightFormat
from rooflab.work.llm.graph_maker import Maker
from rooflab.work.llm.mixers import Attention, Compressed, Delta, Latent, Lightning, ShortConv, StateSpace
from rooflab.work.llm.precision import Precision, stored
from rooflab.work.llm.streams import AltUp


def graph(
    model: Architecture,
    *,
    sequences: int = 1,
    new: int = 1,
    before: int = 0,
    precision: Precision | None = None,
    joined: bool = False,
    every_logit: bool = False,
    adapters: int = 0,
) -> Graph:
    """The program of `new` tokens of each of `sequences`, after `before` tokens in the cache.

    A prefill has many new tokens, a decode one. Tokens choose experts as if at random: as many experts are read as
    that many draws meet in the mean.

    Args:
        precision: formats of the parts; those that the model is published in where not given.
        joined: whether q, k and v are one product, and gate and up another.
        every_logit: whether all tokens meet the head, not only the last of each sequence.
        adapters: rank of a LoRA adapter beside each projection of the layers (arXiv:2106.09685); 0 for none.

    Raises:
        RooflabError: fewer than one sequence or new token, or a number below 0.
    """
    for name, value, least in (
        ("batch of sequences", sequences, 1),
        ("number of new tokens", new, 1),
        ("number of tokens in the context", before, 0),
        ("rank of adapters", adapters, 0),
    ):
        if not isinstance(value, int) or value < least:
            raise RooflabError(f"{model.name}: {name} is {value!r}, expected a whole number of at least {least}")
    make = Maker(precision or stored(model), sequences, new, before, joined, adapters)
    hidden, tokens = model.hidden, sequences * new
    if model.encoder is not None:
        _encode(make, model.encoder)
    ids = make.tensor((tokens,), "int64", role="input", name="tokens")
    table = make.weight((model.vocabulary, hidden), make.precision.embedding, "embedding")
    x = make.tensor((tokens, hidden), "bf16")
    make.op("embedding", "gather", (table, ids), (x,), module="embedding", rows=tokens)
    if model.side_width:
        _sides(make, model, x, ids)
    x = graph_streams.begun(make, model, x)
    number = 0
    for block in model.blocks:
        for _ in range(block.count):
            x = _block(make, model, block, x, f"layers.{number}")
            number += 1
    x = graph_streams.ended(make, model, x)
    x = make.norm(x, hidden, model.layer_norm, "norm")
    rows = tokens if every_logit else sequences
    last = make.tensor((rows, hidden), "bf16", storage=make.tensors[x].storage)
    if model.tied:
        head = make.tensor(
            (hidden, model.vocabulary),
            make.tensors[table].dtype,
            storage=make.tensors[table].storage,
            role="parameter",
            nbytes=make.tensors[table].nbytes,
        )
    else:
        head = make.weight((hidden, model.vocabulary), make.precision.head, "head")
    make.product(last, head, rows, model.vocabulary, hidden, "head", make.precision.head, model.head_bias)
    return Graph(
        framework="hand",
        tensors=tuple(make.tensors),
        ops=tuple(make.ops),
        conventions=("attention: fused", "causal: exact", "experts: chosen at random, in the mean"),
    )


def _block(make: Maker, model: Architecture, block: Block, x: int, module: str) -> int:
    """One layer, in all residual streams where there are several."""
    if not isinstance(block.streams, AltUp):
        return _layer(make, model, block, x, module)
    active, foretold = graph_streams.foretold(make, model.hidden, block.streams, x, f"{module}.streams")
    out = _layer(make, model, dataclasses.replace(block, side=0), active, module)
    x = graph_streams.put_right(make, model.hidden, block.streams, foretold, out, f"{module}.streams")
    if not block.side:
        return x
    own = _side(make, model, block.side, out, f"{module}.own")
    return graph_streams.added(make, x, own, f"{module}.streams")


def _layer(make: Maker, model: Architecture, block: Block, x: int, module: str) -> int:
    taken = graph_streams.taken(make, model.hidden, block.streams, x, f"{module}.streams")
    read = make.norm(taken, model.hidden, model.layer_norm, f"{module}.norm") if block.norms else taken
    norms = block.norms - 1
    fed = read
    if block.mixer is not None:
        mixed = _mixer(make, model, block.mixer, read, f"{module}.attention")
        if block.beside is not None:
            other = _mixer(make, model, block.beside, read, f"{module}.mixer 2")
            mixed = make.pointwise("add", (mixed, other), module)
        if norms > 2:
            mixed, norms = make.norm(mixed, model.hidden, model.layer_norm, f"{module}.norm after"), norms - 1
        if isinstance(block.streams, AltUp):
            learnt = graph_streams.learnt(make, model.hidden, block.streams, read, f"{module}.laurel")
            mixed = make.pointwise("add", (mixed, learnt), module)
        x = graph_streams.given(make, block.streams, x, mixed, module)
    if block.cross is not None and model.encoder is not None:
        read = make.norm(x, model.hidden, model.layer_norm, f"{module}.cross norm")
        x = make.pointwise("add", (x, _cross(make, model, block.cross, read, f"{module}.cross")), module)
        norms -= 1
    if block.feed is None:
        return x
    if not block.parallel and norms > 0:
        taken = graph_streams.taken(make, model.hidden, block.streams, x, f"{module}.streams 2")
        fed = make.norm(taken, model.hidden, model.layer_norm, f"{module}.norm 2")
        norms -= 1
    elif block.parallel and norms > 0:
        fed, norms = make.norm(x, model.hidden, model.layer_norm, f"{module}.norm 2"), norms - 1
    out = _feed(make, model.hidden, block.feed, fed, make.tokens, f"{module}.mlp")
    if norms > 0:
        out = make.norm(out, model.hidden, model.layer_norm, f"{module}.norm last")
    x = graph_streams.given(make, block.streams, x, out, module)
    return _side(make, model, block.side, x, f"{module}.own") if block.side else x


def _sides(make: Maker, model: Architecture, x: int, ids: int) -> None:
    """The layers' own embeddings of the tokens: rows of a table, and a product of the token's vector, added up."""
    width, name = model.side_width, "layers' own embedding"
    table = make.weight((model.side_vocabulary, width), make.precision.embedding, name)
    found = make.tensor((make.tokens, width), "bf16")
    make.op(name, "gather", (table, ids), (found,), module=name, rows=make.tokens)
    made = make.linear(x, make.tokens, (width,), model.hidden, name, make.precision.embedding)[0]
    make.pointwise("add", (make.norm(made, width, False, f"{name}.norm"), found), name)


def _side(make: Maker, model: Architecture, width: int, x: int, module: str) -> int:
    """A layer's own embedding mixed in by a gate of its width and a product back to the hidden size."""
    form, rows = make.precision.linear, make.tokens
    gate = make.linear(x, rows, (width,), model.hidden, f"{module}.gate", form)[0]
    gated = make.pointwise("mul", (gate, make.tensor((rows, width), "bf16")), module)
    out = make.linear(gated, rows, (model.hidden,), width, f"{module}.project", form)[0]
    return make.pointwise("add", (x, make.norm(out, model.hidden, False, f"{module}.norm")), module)


def _mixer(make: Maker, model: Architecture, mixer: Any, x: int, module: str) -> int:
    if isinstance(mixer, Attention):
        return _attention(make, model.hidden, mixer, x, module)
    if isinstance(mixer, Latent):
        return graph_latent.latent(make, model.hidden, mixer, x, module)
    if isinstance(mixer, Compressed):
        return graph_latent.compressed(make, model.hidden, mixer, x, module)
    if isinstance(mixer, ShortConv):
        return _short_conv(make, model.hidden, mixer, x, module)
    return _recurrent(make, model.hidden, mixer, x, module)


def _short_conv(make: Maker, hidden: int, a: ShortConv, x: int, module: str) -> int:
    """Both gates and the input by one product, the convolution with the last inputs, the result's product."""
    rows, form = make.tokens, make.precision.attention
    make.linear(x, rows, (3 * a.width,), hidden, f"{module}.in", form, a.bias)
    given = make.tensor((rows, a.width), "bf16")
    taken = make.pointwise("mul", (make.tensor((rows, a.width), "bf16"), given), f"{module}.gate")
    taps = make.weight((a.width, a.taps), make.precision.embedding, f"{module}.conv")
    out = make.tensor((rows, a.width), "bf16")
    name = f"{module}.conv"
    make.op(
        "conv1d", "kernel", (taken, taps), (out,), module=name, dtype="fp32", vector=2 * rows * a.width * a.taps
    )
    gated = make.pointwise("mul", (out, given), f"{module}.gate")
    return make.linear(gated, rows, (hidden,), a.width, f"{module}.out", form, a.bias)[0]


def _attention(make: Maker, hidden: int, a: Attention, x: int, module: str) -> int:
    rows, form = make.tokens, make.precision.attention
    q, kv = a.heads * a.size, [int(each) for each in a.kv_parts(a.kv_heads)]
    make.linear(x, rows, (q, *kv, a.heads * a.gate), hidden, f"{module}.qkv", form, a.bias)
    heads = make.tensor((rows, a.heads, a.size), "bf16")
    if a.qk_norm:
        keys = make.tensor((rows, a.kv_heads, a.size), "bf16")
        parts = ((heads, a.heads * a.size), (keys, a.kv_heads * a.size))
        for part, width in parts[: 2 - a.borrows]:
            make.norm(part, width if a.qk_norm == "full" else a.size, False, f"{module}.qk_norm")
    if a.rotates:
        turned = make.tensor((rows, a.heads + a.kv_heads * (not a.borrows), a.size), "bf16")
        make.pointwise("rope", (turned,), f"{module}.rope")
    if a.index_heads:
        _index(make, hidden, a, x, f"{module}.index")
    out = make.attend(a.heads, a.kv_heads, a.size, a.values, a.window, a.causal, module)
    if a.gate:
        out = make.pointwise("mul", (out, out), f"{module}.gate")
    flat = make.tensor((rows, a.heads * a.values), "bf16", storage=make.tensors[out].storage)
    return make.linear(
        flat, rows, (hidden,), a.heads * a.values, f"{module}.out", make.precision.of_result, a.out_bias
    )[0]


def _index(make: Maker, hidden: int, a: Attention, x: int, module: str) -> None:
    """Scores of all keys by the indexer's heads. Attention after it is counted over all keys, as PyTorch masks."""
    rows, form, seen = make.tokens, make.precision.attention, make.before + make.new
    make.linear(x, rows, (a.index_heads * a.index_size, a.index_size), hidden, module, form)
    q = make.tensor((make.sequences, make.new * a.index_heads, a.index_size), "bf16")
    keys = make.tensor((make.sequences, a.index_size, seen), "bf16", role="buffer", name=f"{module}.k_cache")
    scores = make.tensor((make.sequences, make.new * a.index_heads, seen), "fp32")
    make.op("bmm", "matmul", (q, keys), (scores,), module=module, k=a.index_size)


def _recurrent(make: Maker, hidden: int, a: Delta | Lightning | StateSpace, x: int, module: str) -> int:
    """Projections, the convolution and the state: read and written once a sequence, its products by token."""
    rows, form = make.tokens, make.precision.attention
    if isinstance(a, Lightning):
        return _lightning(make, hidden, a, x, module)
    if isinstance(a, Delta):
        inner, state = a.value_heads * a.values, a.value_heads * a.size * a.values
        make.linear(x, rows, a.projected, hidden, f"{module}.in", form)
        if a.rank:
            low = make.tensor((rows, a.rank), "bf16")
            make.linear(low, rows, (a.decays,), a.rank, f"{module}.decays", form)
            make.linear(low, rows, (inner,), a.rank, f"{module}.gate", form)
        mixed, products = a.mixed, 3 * state  # what the state says of k, its change, what it says of q
    else:
        inner, state, mixed = a.inner, a.inner * a.state, a.mixed
        make.linear(x, rows, (a.projected,), hidden, f"{module}.in", form, a.bias)
        if not a.heads:
            flat = make.tensor((rows, inner), "bf16")
            low = make.linear(flat, rows, (a.rank + 2 * a.state,), inner, f"{module}.x", form)[0]
            step = make.tensor((rows, a.rank), "bf16", storage=make.tensors[low].storage)
            make.linear(step, rows, (inner,), a.rank, f"{module}.dt", form)
        products = 2 * state
    taps = make.weight((mixed, a.taps), make.precision.embedding, f"{module}.conv")
    taken, given = make.tensor((rows, mixed), "bf16"), make.tensor((rows, mixed), "bf16")
    make.op(
        "conv1d",
        "kernel",
        (taken, taps),
        (given,),
        module=f"{module}.conv",
        dtype="fp32",
        vector=2 * rows * mixed * a.taps,
    )
    out = _kept(make, state, products, given, inner, module)
    gated = make.norm(out, inner, False, f"{module}.norm") if isinstance(a, Delta) or a.heads * a.normed else out
    return make.linear(gated, rows, (hidden,), inner, f"{module}.out", form, getattr(a, "bias", False))[0]


def _kept(make: Maker, state: int, products: int, given: int, inner: int, module: str) -> int:
    """A state of so many numbers of each sequence, read and written, and `products` with it of each token."""
    kept = make.tensor((make.sequences, state), "fp32", role="buffer")
    after = make.tensor((make.sequences, state), "fp32", storage=make.tensors[kept].storage, role="buffer")
    out = make.tensor((make.tokens, inner), "bf16")
    vector = 2 * make.tokens * products
    make.op("recurrence", "kernel", (given, kept), (out, after), module=module, dtype="fp32", vector=vector)
    return out


def _lightning(make: Maker, hidden: int, a: Lightning, x: int, module: str) -> int:
    """Linear attention with fixed decays: what the state gets of a token, and what it says of its query."""
    rows, form, inner = make.tokens, make.precision.attention, a.heads * a.size
    make.linear(x, rows, (3 * inner, inner), hidden, f"{module}.in", form)
    given = make.pointwise("silu", (make.tensor((rows, 3 * inner), "bf16"),), f"{module}.act")
    out = _kept(make, a.state_elements(), 2 * a.state_elements(), given, inner, module)
    gated = make.norm(out, inner, False, f"{module}.norm")
    gated = make.pointwise("mul", (gated, make.tensor((rows, inner), "bf16")), f"{module}.gate")
    return make.linear(gated, rows, (hidden,), inner, f"{module}.out", form)[0]


def _feed(make: Maker, hidden: int, feed: Mlp | Experts, x: int, rows: int, module: str) -> int:
    if isinstance(feed, Mlp):
        return _dense(make, hidden, feed, x, rows, module)
    chosen = rows * feed.chosen
    make.linear(x, rows, (feed.scored,), hidden, f"{module}.router", make.precision.embedding, feed.router_bias)
    # Experts that so many draws meet, in the mean.
    met = round(feed.count * (1 - (1 - feed.chosen / feed.count) ** rows))
    active = max(1, min(met, chosen, feed.count))
    form = make.precision.experts
    ways = 1 + feed.gated
    size = feed.width or hidden
    if feed.width:
        make.linear(x, rows, (size,), hidden, f"{module}.to experts", make.precision.linear)
    first = make.tensor((chosen, size), "bf16")
    inner = _grouped(make, first, chosen, ways * feed.inner, size, feed.count, active, f"{module}.up", form)
    acted = make.tensor((chosen, feed.inner), "bf16", storage=make.tensors[inner].storage)
    acted = make.pointwise("silu", (acted,), f"{module}.act")
    if feed.gated:
        acted = make.pointwise("mul", (acted, acted), f"{module}.act")
    _grouped(make, acted, chosen, size, feed.inner, feed.count, active, f"{module}.down", form)
    out = make.tensor((rows, hidden), "bf16")
    if feed.width:
        given = make.tensor((rows, size), "bf16")
        out = make.linear(given, rows, (hidden,), size, f"{module}.from experts", make.precision.linear)[0]
    if feed.shared:
        other = _dense(make, hidden, Mlp(feed.shared, feed.gated), x, rows, f"{module}.shared")
        if feed.shared_gate:
            make.linear(x, rows, (1,), hidden, f"{module}.shared gate", make.precision.embedding)
        out = make.pointwise("add", (out, other), module)
    return out


def _grouped(
    make: Maker, x: int, rows: int, n: int, k: int, groups: int, active: int, module: str, form: WeightFormat
) -> int:
    weights = make.weight((groups, k, n), form, module)
    out = make.tensor((rows, n), "bf16")
    attrs: dict[str, Any] = {"active": active}
    if form.multiplies != "bf16" or form.bits < 16:
        attrs |= {"compute": form.multiplies, "weight_bits": form.bits}
    make.op("grouped_matmul", "grouped_matmul", (x, weights), (out,), module=module, **attrs)
    return out


def _dense(make: Maker, hidden: int, feed: Mlp, x: int, rows: int, module: str) -> int:
    form = make.precision.linear
    widths = (feed.inner,) * (1 + feed.gated)
    make.linear(x, rows, widths, hidden, f"{module}.up", form, feed.bias)
    acted = make.pointwise("silu", (make.tensor((rows, feed.inner), "bf16"),), f"{module}.act")
    if feed.gated:
        acted = make.pointwise("mul", (acted, acted), f"{module}.act")
    return make.linear(acted, rows, (hidden,), feed.inner, f"{module}.down", form, feed.bias)[0]


def _encode(make: Maker, tower: Tower) -> None:
    """The encoder over as many tokens as the decoder gets new ones."""
    x = make.tensor((make.tokens, tower.hidden), "bf16", role="input", name="encoder tokens")
    number = 0
    for block in tower.blocks:
        for _ in range(block.count):
            module = f"encoder.{number}"
            read = make.norm(x, tower.hidden, tower.layer_norm, f"{module}.norm")
            assert isinstance(block.mixer, Attention)
            x = make.pointwise(
                "add", (x, _attention(make, tower.hidden, block.mixer, read, f"{module}.attention")), module
            )
            assert block.feed is not None
            read = make.norm(x, tower.hidden, tower.layer_norm, f"{module}.norm 2")
            x = make.pointwise(
                "add", (x, _feed(make, tower.hidden, block.feed, read, make.tokens, f"{module}.mlp")), module
            )
            number += 1
    make.norm(x, tower.hidden, tower.layer_norm, "encoder.norm")


def _cross(make: Maker, model: Architecture, a: Attention, x: int, module: str) -> int:
    """Attention to the encoder's tokens, of which there are as many as new ones."""
    rows, form, hidden = make.tokens, make.precision.attention, model.hidden
    make.linear(x, rows, (a.heads * a.size,), hidden, f"{module}.q", form, a.bias)
    encoded = make.tensor((rows, hidden), "bf16")
    make.linear(encoded, rows, (a.kv_heads * a.size, a.kv_heads * a.values), hidden, f"{module}.kv", form, a.bias)
    out = make.attend(a.heads, a.kv_heads, a.size, a.values, 0, False, module, keys=make.new)
    flat = make.tensor((rows, a.heads * a.values), "bf16", storage=make.tensors[out].storage)
    return make.linear(
        flat, rows, (hidden,), a.heads * a.values, f"{module}.out", make.precision.of_result, a.out_bias
    )[0]
