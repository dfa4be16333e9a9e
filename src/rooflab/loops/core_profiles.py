"""The loops of compiled code as a core sees them, in the lines of their source, or why there is no profile."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rooflab.loops.compiled import remarks
from rooflab.loops.lowered import core_loops, team_loops
from rooflab.types.loop import CoreLoop

LONGEST_S = 10.0  # a count that took longer is not followed by a profile, which takes some times as long


def loops_of(
    function: Callable[..., Any], values: tuple[Any, ...], counted_s: float, *, team: int | None = None
) -> tuple[tuple[CoreLoop, ...], tuple[str, ...]]:
    """The loops of the compiled code as a core sees them, and what is to be said where they could not be profiled.

    Args:
        function: compiled.
        values: its arguments, which the run may change.
        counted_s: what the count took; where that is long, this takes longer still and is left out.
        team: as one of so many threads runs it (see `lowered.team_loops`); None: as one core does.
    """
    if counted_s > LONGEST_S:
        return (), (
            f"counting took {counted_s:.0f} s, and a profile of its compiled code would take longer still: it is"
            " left out, and times follow its source; smaller arguments are profiled",
        )
    try:
        found = (
            core_loops.found_in(function, values) if team is None else team_loops.found_in(function, values, team)
        )
    except Exception as error:  # noqa: BLE001
        # IR that was not foreseen: the counts stand without a profile, and the report says that there is none
        return (), (failed(error),)
    return found, core_loops.said(found)


def failed(error: Exception) -> str:
    """What is said of compiled code of which a profile ended with `error`."""
    why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.100}"
    return f"its compiled code could not be profiled ({why}): times follow its source"


def of_source(loops: tuple[CoreLoop, ...], tree: ast.FunctionDef, function: Any) -> tuple[CoreLoop, ...]:
    """`loops` of `function`, which was generated from `tree`, with the lines of the source."""
    code = function.__code__
    text = Path(code.co_filename).read_text("utf-8")
    return _in_lines(loops, remarks.source_lines(tree, text, code.co_name))


def _in_lines(loops: tuple[CoreLoop, ...], lines: Mapping[int, int]) -> tuple[CoreLoop, ...]:
    """`loops` of a generated file with the lines of its source."""
    return tuple(
        msgspec.structs.replace(
            each,
            line=lines.get(each.line, 0),
            chain_lines=tuple(sorted({lines[n] for n in each.chain_lines if n in lines})),
            missed_line=lines.get(each.missed_line, 0),
            tested_lines=tuple(sorted({lines[n] for n in each.tested_lines if n in lines})),
            places={
                kind: tuple(sorted({lines[n] for n in found if n in lines})) for kind, found in each.places.items()
            },
        )
        for each in loops
    )
