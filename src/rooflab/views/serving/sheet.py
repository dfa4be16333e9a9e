"""What is shown of an answer of serve: the times first, then where they go, memory, other loads, the stream."""

from __future__ import annotations

from rooflab.types.serving import Estimate, LoadPoint, Serving, StepTime
from rooflab.units import duration, percent, si
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, quantity

_LOADS = 12  # lines of the table of loads


def sheet_of(serving: Serving) -> Sheet:
    """What is shown of `serving`."""
    return Sheet(
        _headline(serving),
        "an answer of serve",
        sentences=tuple(_sentences(serving)),
        tables=(_times(serving), *map(_step, serving.steps), _memory(serving), _replay(serving), _loads(serving)),
        warnings=serving.warnings,
        notes=(*serving.notes, *(f"{source.kind}: {source.ref}" for source in serving.sources[:1])),
    )


def _headline(serving: Serving) -> str:
    later = "" if serving.tpot is None else f", then one each {duration(serving.tpot.time_s)}"
    rate = si(serving.output_tokens_per_s, "token/s")
    return f"{serving.name}: first token after {duration(serving.ttft.time_s)}{later}; {rate}"


def _sentences(serving: Serving) -> list[str]:
    where = serving.deployment
    copies = "one copy" if where.copies == 1 else f"{where.copies} copies"
    if where.prefill_copies:
        decode = where.copies - where.prefill_copies
        copies = f"{where.prefill_copies} for prompts as {where.prefill_layout}, {decode} to decode"
    node = f" in {where.node}" if where.node else ""
    layout = f" as {where.layout}" if where.devices > 1 else ""
    lines = [
        f"{where.engine}, weights {where.weights}, cache {where.cache}; {copies}{layout} on "
        f"{where.devices} device{'s' if where.devices > 1 else ''}{node}.",
        f"Asked: {serving.demand.name}.",
    ]
    decode = next((each for each in serving.steps if each.name == "decode"), None)
    if decode is not None:
        lines.append(f"A step that decodes: {_goes(decode)}.")
    if serving.tpot is not None and _held_up_s(serving) > 0.5 * serving.tpot.time_s:
        share = percent(_held_up_s(serving) / serving.tpot.time_s)
        lines.append(
            f"Steps with prompts are {share} of the time for a token: copies of their own for these "
            "(--disagg P:D), fewer clients or shorter steps (--step-tokens) lessen that."
        )
    if serving.price_per_million_tokens is not None:
        price = f"{serving.price_per_hour:.2f} an hour"
        lines.append(f"{price}: {serving.price_per_million_tokens:.3g} for a million tokens given out.")
    return lines


def _goes(step: StepTime) -> str:
    parts = sorted(step.parts, key=lambda each: -each.time_s)[:3]
    shares = (f"{each.layer} {percent(each.time_s / step.time.time_s)} ({each.binds})" for each in parts)
    return f"{duration(step.time.time_s)}, of it {', '.join(shares)}"


def _times(serving: Serving) -> Table:
    def line(name: str, each: Estimate) -> tuple[str, ...]:
        bar = f"{duration(each.low_s)} to {duration(each.high_s)}"
        return name, duration(each.time_s), bar, UNKNOWN if each.floor_s is None else duration(each.floor_s)

    rows = [
        line("time to first token (TTFT)", serving.ttft),
        *([] if serving.tpot is None else [line("time per token after it (TPOT)", serving.tpot)]),
        ("of the TTFT, waiting for a place", duration(serving.queue_s), UNKNOWN, UNKNOWN),
        *_held_up(serving),
        ("tokens a second, all", si(serving.output_tokens_per_s, "token/s"), UNKNOWN, UNKNOWN),
        ("for each device", si(serving.output_tokens_per_s_per_device, "token/s"), UNKNOWN, UNKNOWN),
        ("for each user", quantity(serving.output_tokens_per_s_per_user, "token/s"), UNKNOWN, UNKNOWN),
        ("requests a second", f"{serving.requests_per_s:.3g}", UNKNOWN, UNKNOWN),
        ("requests that run at once", _count(serving.running), UNKNOWN, UNKNOWN),
    ]
    note = "Floor: weights, cache, products and links at theoretical rates, of one request alone."
    return Table("Predicted", ("figure", "mean", "error bar", "floor"), tuple(rows), note=note)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _held_up_s(serving: Serving) -> float:
    """What steps with prompts add to each token; 0 where these have copies of their own or tokens are drafted."""
    decode = next((each for each in serving.steps if each.name == "decode"), None)
    if serving.tpot is None or decode is None or serving.deployment.drafts or serving.deployment.prefill_copies:
        return 0.0
    return max(serving.tpot.time_s - decode.time.time_s, 0.0)


def _held_up(serving: Serving) -> list[tuple[str, ...]]:
    """A row of it where it is worth one."""
    more_s = _held_up_s(serving)
    if serving.tpot is None or more_s < 0.1 * serving.tpot.time_s:
        return []
    return [("of the TPOT, steps with prompts", duration(more_s), UNKNOWN, UNKNOWN)]


def _step(step: StepTime) -> Table:
    if step.name == "decode":
        many = "" if step.sequences == 1 else "s"
        title = f"A step that decodes {_count(step.sequences)} sequence{many} of {step.context_tokens:,.0f} tokens"
    else:
        title = f"A step of {step.prompt_tokens:,.0f} tokens of one prompt"
    rows = [
        (
            each.layer,
            duration(each.time_s),
            percent(each.time_s / step.time.time_s),
            *(
                duration(one) if one else UNKNOWN
                for one in (each.compute_s, each.memory_s, each.cache_s, each.links_s, each.overhead_s)
            ),
            each.binds,
        )
        for each in step.parts
    ]
    columns = ("layer", "time", "share", "compute", "memory", "cache", "links", "starts", "binds")
    whole = f"{duration(step.time.time_s)} ({duration(step.time.low_s)} to {duration(step.time.high_s)})"
    note = (
        f"{whole}; what each level would take alone, which overlap; binds: what bound most of the time kernel by "
        "kernel, not always the largest sum."
    )
    return Table(title, columns, tuple(rows), note=note)


def _memory(serving: Serving) -> Table:
    used = serving.memory
    kinds = ("weights", "cache", "states", "activations", "workspace")
    rows = [(name, si(getattr(used, name), "B")) for name in kinds if getattr(used, name)]
    rows += [("all", si(used.total, "B")), ("an engine may use", quantity(used.usable, "B"))]
    rows += [("of", quantity(used.capacity, "B"))]
    note = ""
    if used.most_running is not None:
        each = "" if used.kept_tokens is None else f" that keep {used.kept_tokens:,.0f} tokens each"
        note = f"The KV cache of a copy holds {_count(used.most_running)} requests{each}."
    return Table("Memory of the fullest device", ("kind", "bytes"), tuple(rows), note=note)


def _replay(serving: Serving) -> Table:
    found = serving.replay
    if found is None:
        return Table("", (), ())
    rows = [
        (each.name, *(duration(one) for one in (each.mean, each.p50, each.p90, each.p99, each.most)))
        for each in found.quantiles
    ]
    note = (
        f"{found.requests:,} requests in {duration(found.span_s)}: {found.requests_per_s:.3g} requests/s, "
        f"{si(found.output_tokens_per_s, 'token/s')}. Engines compute {percent(found.utilisation)} of the time; "
        f"{found.mean_running:.3g} requests run and {found.mean_waiting:.3g} wait in the mean, "
        f"{found.most_waiting:,.0f} at most; the KV cache is {percent(found.cache_share)} full, "
        f"{percent(found.most_cache_share)} at most; {found.preemptions:,} preemptions; {found.steps:,} steps, "
        f"{found.mixed_steps:,} of them with tokens of prompts."
    )
    return Table(
        "The stream, event by event", ("", "mean", "median", "p90", "p99", "most"), tuple(rows), note=note
    )


def _loads(serving: Serving) -> Table:
    step = max(1, -(-len(serving.loads) // _LOADS))
    rows = [_load(each) for each in serving.loads[::step]]
    columns = ("clients", "TTFT", "TPOT", "waiting", "requests/s", "tokens/s", "running")
    return Table("At other loads", columns, tuple(rows), note="Closed loops in their steady state.")


def _load(each: LoadPoint) -> tuple[str, ...]:
    return (
        f"{each.concurrency:,.0f}",
        *(duration(one) for one in (each.ttft_s, each.tpot_s, each.queue_s)),
        f"{each.requests_per_s:.3g}",
        si(each.tokens_per_s, "token/s"),
        _count(each.running),
    )


def lines(serving: Serving) -> Lines:
    """A line for each load, in base units."""
    columns = tuple(LoadPoint.__struct_fields__)
    return Lines(columns, [tuple(getattr(each, name) for name in columns) for each in serving.loads])
