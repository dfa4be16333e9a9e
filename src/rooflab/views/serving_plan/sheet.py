"""What is shown of a plan of serving: the best setting first, then the others, the front, what cannot be."""

from __future__ import annotations

from rooflab.types.serving_plan import Goal, Option, ServingPlan
from rooflab.units import duration, percent, si
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table, without_empty

_SHOWN = 15  # lines of a table


def sheet_of(plan: ServingPlan) -> Sheet:
    """What is shown of `plan`."""
    return Sheet(
        _headline(plan),
        "a plan of serving",
        sentences=tuple(_sentences(plan)),
        tables=(
            _table(plan, "The best of each layout", plan.options),
            _table(plan, "None is better for the user and the owner at once", plan.front),
            _refused(plan),
        ),
        warnings=plan.warnings,
        notes=plan.notes,
    )


def where_of(option: Option) -> str:
    """Devices, layout and formats of `option` in words."""
    where = option.deployment
    if where.prefill_copies:
        decode = where.copies - where.prefill_copies
        pools = f"{_copies(where.prefill_copies, where.prefill_layout)} → {_copies(decode, where.layout)}"
        return f"{where.devices} × ({pools}) {where.weights}, {where.machine}"
    layout = "" if where.layout == "1 device" else f" {where.layout}"
    copies = "" if where.copies == 1 else f" in {where.copies} copies"
    return f"{where.devices} ×{layout} {where.weights}{copies}, {where.machine}"


def _copies(count: int, layout: str) -> str:
    return layout if count == 1 else f"{count} x {layout}"


def _headline(plan: ServingPlan) -> str:
    best = plan.best
    if best is None:
        return f"{plan.model}: none of {plan.settings:,} settings keeps the goal"
    price = best.price_per_million_tokens
    cost = "" if price is None else f", {price:.3g} for a million tokens"
    each = "" if best.deployment.prefill_copies else " a copy"
    clients = "1 client" if round(best.concurrency) == 1 else f"{best.concurrency:,.0f} clients"
    return f"{plan.model}: {where_of(best)}, {clients}{each}{cost}"


def _sentences(plan: ServingPlan) -> list[str]:
    meets = sum(option.meets for option in plan.options)
    lines = [
        f"Asked: {plan.prompt_tokens:,} tokens in, {plan.answer_tokens:,} out{_goal(plan.goal)}. "
        f"{plan.settings:,} settings; {meets} of {len(plan.options)} layouts keep it."
    ]
    best = plan.best
    if best is not None:
        lines.append(
            f"TTFT {duration(best.ttft_s)}, TPOT {duration(best.tpot_s)}, "
            f"{si(best.tokens_per_s_per_device, 'token/s')} for each device; its time goes to {loses_of(best, 3)}."
        )
    return lines


def _goal(goal: Goal) -> str:
    parts = [] if goal.ttft_s is None else [f"TTFT ≤ {duration(goal.ttft_s)}"]
    parts += [] if goal.tpot_s is None else [f"TPOT ≤ {duration(goal.tpot_s)}"]
    parts += [] if goal.rate_per_s is None else [f"{goal.rate_per_s:g} requests/s"]
    return f"; {', '.join(parts)}" if parts else ""


def loses_of(option: Option, most: int = 2) -> str:
    """What its time goes to, the most first."""
    return ", ".join(f"{name} {percent(share)}" for name, share in list(option.loses.items())[:most])


def _table(plan: ServingPlan, title: str, options: tuple[Option, ...]) -> Table:
    step = max(1, -(-len(options) // _SHOWN)) if title.startswith("None") else 1
    rows = [
        (
            where_of(option),
            f"{option.concurrency:,.0f}",
            duration(option.ttft_s),
            duration(option.tpot_s),
            f"{option.tokens_per_s_per_user:.3g}",
            f"{option.tokens_per_s_per_device:,.4g}",
            UNKNOWN if option.price_per_million_tokens is None else f"{option.price_per_million_tokens:.3g}",
            UNKNOWN if option.memory_share is None else percent(option.memory_share),
            "yes" if option.meets else "no",
            loses_of(option),
        )
        for option in options[::step][:_SHOWN]
    ]
    columns = (
        *("where", "clients", "TTFT", "TPOT", "token/s user", "token/s device", "price/M", "memory", "goal"),
        "time goes to",
    )
    left = len(options) - len(rows)
    note = f"{left} more: JSON, CSV and Parquet have all." if left > 0 else ""
    return without_empty(title, columns, rows, note=note)


def _refused(plan: ServingPlan) -> Table:
    rows = [(name, reason) for name, reason in list(plan.refused.items())[:_SHOWN]]
    return Table("Cannot be", ("layout", "why"), tuple(rows), words=2)


def lines(plan: ServingPlan) -> Lines:
    """A line for each option, then for each of the front, in base units."""
    where = tuple(type(plan.options[0].deployment).__struct_fields__) if plan.options else ()
    own = tuple(name for name in Option.__struct_fields__ if name not in ("deployment", "loses"))
    levels = ("compute", "memory", "cache", "links", "overhead", "host", "idle")
    rows = [
        (
            *(getattr(option.deployment, name) for name in where),
            *(getattr(option, name) for name in own),
            option.tokens_per_s_per_user,
            option.tokens_per_s_per_device,
            *(option.loses.get(name, 0.0) for name in levels),
        )
        for option in (*plan.options, *plan.front)
    ]
    derived = ("tokens_per_s_per_user", "tokens_per_s_per_device")
    return Lines((*where, *own, *derived, *(f"{name}_bound_share" for name in levels)), rows)
