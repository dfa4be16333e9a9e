"""The operations of several residual streams in a graph of a language model."""

from __future__ import annotations

from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.formats import weight_format
from rooflab.work.llm.graph_maker import Maker
from rooflab.work.llm.streams import AltUp, HyperConnections, Streams


def begun(make: Maker, model: Architecture, x: int) -> int:
    """All streams, (tokens, streams * hidden), of the tokens' vectors: copies, or a product for all but one."""
    of, rows, hidden = model.streams, make.tokens, model.hidden
    if of is None:
        return x
    if isinstance(of, AltUp):
        for number in range(1, of.count):
            name = f"streams.{number}"
            form = make.precision.embedding
            make.product(x, make.weight((hidden, hidden), form, name), rows, hidden, hidden, name, form)
    wide = make.tensor((rows, of.count * hidden), "bf16")
    make.op("repeat", "pointwise", (x,), (wide,), module="streams", vector=0, special=0)
    return wide


def ended(make: Maker, model: Architecture, x: int) -> int:
    """One vector of a token, (tokens, hidden), of its streams after the last layer."""
    of, hidden = model.streams, model.hidden
    if of is None:
        return x
    if isinstance(of, HyperConnections) and not of.averaged:
        return _mixed(make, hidden, of.count, of.count, x, "streams")
    rows, form = make.tokens, make.precision.embedding
    for number in range(1, of.count) if isinstance(of, AltUp) else ():
        part = make.tensor((rows, hidden), "bf16")
        name = f"streams.end.{number}"
        make.product(part, make.weight((hidden, hidden), form, name), rows, hidden, hidden, name, form)
    out = make.tensor((rows, hidden), "bf16")
    make.op("mix", "pointwise", (x,), (out,), module="streams", vector=of.count, special=0)
    return out


def taken(make: Maker, hidden: int, of: Streams | None, x: int, module: str) -> int:
    """What a part of a layer reads: the residual, or a mixture of its streams."""
    return _mixed(make, hidden, of.count, of.numbers, x, module) if isinstance(of, HyperConnections) else x


def given(make: Maker, of: Streams | None, x: int, out: int, module: str) -> int:
    """What goes on after a part: the residual and what it gave, or the streams, mixed, with their share of it."""
    if not isinstance(of, HyperConnections):
        return make.pointwise("add", (x, out), module)
    after = make.tensor(make.tensors[x].shape, "bf16")
    ops = 2 * (of.count + 1)
    make.op("mix", "pointwise", (x, out), (after,), module=module, vector=ops, special=0)
    return after


def _mixed(make: Maker, hidden: int, streams: int, numbers: int, x: int, module: str) -> int:
    """The mixture of residual streams by numbers that a product makes of all of them."""
    rows, form = make.tokens, weight_format("fp32")
    weights = make.weight((streams * hidden, numbers), form, module)
    make.product(x, weights, rows, numbers, streams * hidden, module, form)
    out = make.tensor((rows, hidden), "bf16")
    make.op("mix", "pointwise", (x,), (out,), module=module, vector=2 * streams, special=0)
    return out


def foretold(make: Maker, hidden: int, of: AltUp, x: int, module: str) -> tuple[int, int]:
    """The stream that passes a layer, (tokens, hidden), and all as they are foretold."""
    active = make.tensor((make.tokens, hidden), "bf16", storage=make.tensors[x].storage)
    _routed(make, hidden, of, active, of.count**2, f"{module}.before")
    all_streams = make.tensor(make.tensors[x].shape, "bf16")
    ops = 2 * of.count
    make.op("mix", "pointwise", (x,), (all_streams,), module=module, vector=ops, special=0)
    return make.tensor((make.tokens, hidden), "bf16", storage=make.tensors[all_streams].storage), all_streams


def put_right(make: Maker, hidden: int, of: AltUp, x: int, out: int, module: str) -> int:
    """All streams after what a layer gave for one of them."""
    _routed(make, hidden, of, out, of.count, f"{module}.after")
    after = make.tensor(make.tensors[x].shape, "bf16")
    make.op("mix", "pointwise", (x, out), (after,), module=module, vector=2, special=0)
    return after


def added(make: Maker, x: int, own: int, module: str) -> int:
    """All streams but the first with what a layer makes of the token's own embedding."""
    after = make.tensor(make.tensors[x].shape, "bf16")
    make.op("add", "pointwise", (x, own), (after,), module=module, vector=1, special=0)
    return after


def learnt(make: Maker, hidden: int, of: AltUp, x: int, module: str) -> int:
    """The learnt residual beside attention: two products of low rank, and a norm."""
    rows, form = make.tokens, make.precision.linear
    low = make.product(
        x, make.weight((hidden, of.rank), form, module), rows, of.rank, hidden, f"{module}.left", form
    )
    high = make.weight((of.rank, hidden), form, module)
    return make.norm(
        make.product(low, high, rows, hidden, of.rank, f"{module}.right", form), hidden, False, module
    )


def _routed(make: Maker, hidden: int, of: AltUp, x: int, numbers: int, module: str) -> None:
    """The numbers that mix streams: a norm, a product of the token's vector, and one of what that gives."""
    form, rows = make.precision.embedding, make.tokens
    read = make.norm(x, hidden, False, f"{module}.norm")
    weights = make.weight((hidden, of.count), form, module)
    few = make.product(read, weights, rows, of.count, hidden, f"{module}.router", form)
    table = make.weight((of.count, numbers), form, module)
    make.product(few, table, rows, numbers, of.count, f"{module}.coefficients", form)
