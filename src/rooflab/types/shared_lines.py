"""Cache lines that threads of a loop take from one another: by source line and array."""

from __future__ import annotations

import msgspec


class SharedLines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lines of one array that one line of the source has threads take from one another.

    Attributes:
        line: of the source.
        array: whose they are.
        cache_lines: how many.
        threads: of the team that was counted.
        taken: how often a thread takes one that another had, in one run. A core keeps a line for as many of its
            stores as wait in its store queue.
        falsely: of these, how often nothing that it then reads or writes was written by another since: such lines
            are shared only because they hold what belongs to several threads.
        in_turn: of `taken`, how many follow one after the other: between two barriers those of the line that is
            taken most; several lines are on their way at once.
    """

    line: int
    array: str
    cache_lines: int
    threads: int
    taken: int
    falsely: int
    in_turn: int
