"""A page that is explored: operations under their roofs, sorted, filtered, selected; what its scripts need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from rooflab.model.roofline.per_operation import peak_of
from rooflab.types.machine import Machine, Rate, is_main_memory, is_storage
from rooflab.views.common import page

# Each may use what those before it define.
_FIRST = ("format", "state")
_PLANES = ("place", "plane", "roofs", "roofline", "against", "instructions")
_LAST = ("timeline", "shares", "table", "selected")

BOUNDS_BY = ("operation", "kind", "bound", "phase")


class Column(NamedTuple):
    """A column of the table of operations.

    Those of style col-b are left out on a phone and those of col-c on a tablet: what decides stays in sight.

    Attributes:
        key: what `table.js` calls it.
        name: its heading.
        style: classes of its cells.
        title: what a reader may ask.
    """

    key: str
    name: str
    style: str = ""
    title: str = ""


class Words(NamedTuple):
    """How a page speaks of what it shows.

    Attributes:
        time: what its times are: "predicted" or "measured".
        axes: the bytes of each kind of roofline, after "FLOP per".
        notes: what each kind of roofline says; "{main}" is the main memory's name.
        roofless: whether marks are drawn without a roof.
        left: why a line may have no place in the roofline; empty where that is not said.
    """

    time: str
    axes: dict[str, str]
    notes: dict[str, str]
    roofless: bool = False
    left: str = ""

    def data(self) -> dict[str, object]:
        """What the scripts read."""
        return {**self._asdict(), "Time": self.time.capitalize()}


def scripts(*own: str) -> tuple[str, ...]:
    """The scripts of a page in their order; `own` are those of a room, which may use all that draw nothing."""
    before, after = ([f"common/{name}" for name in names] for names in (_FIRST, (*_PLANES, *_LAST)))
    return tuple(f"{name}.js" for name in (*before, *own, *after))


def render(
    name: str,
    what: str,
    *,
    data: dict[str, Any],
    words: Words,
    own: Sequence[str],
    columns: Iterable[Column],
    template: str = "common/explore.html.j2",
    bars_by: Sequence[str] = BOUNDS_BY,
    axes: Sequence[tuple[str, str]],
    **more: Any,
) -> str:
    """The page of the result called `name`, a `what`.

    Args:
        data: `programs` with their lines, and `predictions` with their columns and roofs (`report/embed.py`).
        words: how it speaks.
        own: scripts of the room, without ".js".
        columns: of the table of operations.
        template: one that extends `common/explore.html.j2`.
        bars_by: what bars can be grouped by.
        axes: kinds of roofline that can be chosen, with their titles.
        more: what the template asks for beside these.
    """
    predictions = data["predictions"]
    asked: dict[str, Any] = {
        "chosen_by": "Predicted on",
        "labels": (),
        "reading": (),
        "first_tables": (),
        "stills": (),
        "timeline_tables": (),
        "advice": None,
        "ridge_note": "",
        "lines_note": "",
        "subject": "",
        "against": any(_both(one["columns"]) for one in predictions),
        "instructions": any(one.get("instructions") for one in predictions),
        "timeline": any(one.get("timeline") for one in predictions),
    }
    return page.render(
        name,
        what,
        template=template,
        scripts=scripts(*own),
        columns=[column._asdict() for column in columns],
        bars_by=bars_by,
        axes=axes,
        data=_json({**data, "words": words.data()}),
        **{**asked, **more},
    )


def _both(columns: dict[str, Any]) -> bool:
    """Whether any line has a measured time and a predicted one."""
    return any(one is not None for name in ("measured_s", "expected_s") for one in columns.get(name) or ())


def _json(value: Any) -> str:
    """`value` as it may stand inside a script element, whatever names it holds."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")


def short(value: float | None) -> float | None:
    """Nine digits: a page redraws to a millionth, and a byte saved is one that is not sent."""
    return value if value is None or isinstance(value, int) else float(f"{value:.9g}")


def roofs(
    machine: Machine, used: dict[str, Rate], factor: Callable[..., float] = lambda *names: 1.0
) -> dict[str, Any]:
    """Bandwidths near to far and peaks slow to fast, those in `used` marked.

    Args:
        machine: whose roofs they are.
        used: peaks that the work meets, by name.
        factor: the product of the what-ifs of some names.
    """
    peaks = dict(_peaks(machine)) | used
    return {
        "levels": list(_levels(machine, factor)),
        "peaks": [
            {
                "name": name,
                "value": rate.value * factor("compute", "clock", "units"),
                "unit": "FLOP/s" if rate.per_s == "flop" else "OP/s",
                "basis": rate.basis,
                "used": name in used,
            }
            for name, rate in sorted(peaks.items(), key=lambda item: item[1].value)
        ],
    }


def _levels(machine: Machine, factor: Callable[..., float]) -> Iterable[dict[str, Any]]:
    near = True
    for level in machine.levels:
        if level.name == "registers" or is_storage(level):
            continue
        # As `Device` has them: caches follow the clock, those of the units also the number of units.
        names = ("cache_bandwidth", "clock", "units") if near else ("cache_bandwidth", "clock")
        faster = factor("bandwidth") if is_main_memory(level) else factor(*names)
        near = False
        rate = level.rate(basis="theoretical") or level.rate()
        if rate is None or rate.per_s != "byte":
            continue
        attained = level.rate(basis="attained")
        yield {
            "name": level.name,
            "value": rate.value * faster,
            "basis": rate.basis,
            "attained": None if attained is None or attained is rate else attained.value * faster,
            "main": is_main_memory(level),
        }


def _peaks(machine: Machine) -> Iterable[tuple[str, Rate]]:
    for peak in machine.peaks:
        if peak.scope == "all" and peak.dtype and peak.engine in ("vector", "matrix") and peak.per_s == "flop":
            rate, name = peak_of(machine, peak.engine, peak.dtype)
            if rate is not None:
                yield name, rate
