"""What is shown of a checkup: what lacks first, with what that means and what to do, then what is granted."""

from __future__ import annotations

from rooflab.types.checkup import STATUSES, Checkup, Grant
from rooflab.units import duration
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import Table

# As people read them: what stops rooflab, what is not there, what is there in part, what nobody knows.
_ORDER = ("missing", "limited", "unknown")


def sheet_of(checkup: Checkup) -> Sheet:
    """What is shown of `checkup`."""
    stopping = tuple(f"{each.name}: {each.found}. {each.todo}" for each in checkup.grants if each.stops)
    return Sheet(
        checkup.name,
        "what an environment grants",
        sentences=sentences(checkup),
        tables=(lacks(checkup), granted(checkup)),
        warnings=stopping,
        notes=_notes(checkup),
    )


def sentences(checkup: Checkup) -> tuple[str, ...]:
    """The system, and how many things are as they should be."""
    where = ", ".join(filter(None, (checkup.system, checkup.processor, f"Python {checkup.python}")))
    counts = ", ".join(f"{len(checkup.of(each))} {each}" for each in STATUSES if checkup.of(each))
    return (f"{where}.", f"{len(checkup.grants)} things looked at in {duration(checkup.took_s)}: {counts}.")


def lacks(checkup: Checkup) -> Table:
    """What is missing, limited or unknown: what was found, what it means for rooflab, what to do."""
    rows = [
        (each.name, f"{each.status}: {each.found}. {consequence(each)}".strip())
        for kind in _ORDER
        for each in checkup.of(kind)
    ]
    columns = ("", "found, what that means, and what to do")
    return Table("Not granted, or not known", columns, tuple(rows), words=2)


def granted(checkup: Checkup) -> Table:
    """What is as it should be, with what was found."""
    return Table("Granted", ("", "found"), tuple((each.name, each.found) for each in checkup.of("ok")), words=2)


def lines(checkup: Checkup) -> Lines:
    """A line for each thing that was looked at; unknown is empty."""
    columns = ("topic", "name", "status", "found", "means", "todo", "source", "stops")
    return Lines(columns, [tuple(getattr(each, name) for name in columns) for each in checkup.grants])


def consequence(grant: Grant) -> str:
    """What `grant` means for rooflab, and what to do, in sentences; nothing where nothing follows."""
    todo = f"To do: {grant.todo}" if grant.todo else ""
    said = (text[0].upper() + text[1:] for text in (grant.means, todo) if text)
    return " ".join(f"{text}." for text in said)


def _notes(checkup: Checkup) -> tuple[str, ...]:
    looked = ("libraries and tools were only looked for, not tried (--quick)",) if checkup.quick else ()
    return (*looked, "no names of users or hosts are in it, and of paths none but the system's: it can be shown")
