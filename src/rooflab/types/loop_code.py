"""The compiled loop: what the compiler left of it, what a core does in a pass, how threads share it."""

from __future__ import annotations

import msgspec

TURNS = 32  # passes in a row, of which each operation has those that run it


class Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the compiler left of the innermost loop after keeping values in registers.

    Attributes:
        lanes: elements that one instruction computes; 1 where the loop is not vectorised.
        loads, stores: instructions of one pass of the compiled loop.
        flop: of one pass.
        read_bytes, write_bytes: that all its passes move between registers and L1, with those of the lines
            around it; None where the compiled loop cannot be matched to one of the source.
        why_not: why it is not vectorised; None where it is.
        gathers: loads of scattered elements in one pass.
        chain: operations that must wait for one another, in all passes together.
        calls: functions that it calls, such as "exp".
        instructions: of one pass, in the compiler's intermediate form.
        passes: that the trips of the source's innermost loop come to; None where it has several such loops.
        trips, entries: of the source's innermost loop, and how often it was entered.
    """

    lanes: int
    loads: int
    stores: int
    flop: int
    read_bytes: float | None
    write_bytes: float | None
    why_not: str | None
    gathers: int = 0
    chain: int = 0
    calls: tuple[str, ...] = ()
    instructions: int = 0
    passes: float | None = None
    trips: int = 0
    entries: int = 0

    @property
    def vectorised(self) -> bool:
        """Whether its arithmetic is on vectors."""
        return self.lanes > 1


class FlowStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One operation of a pass of a compiled loop, and what it waits for.

    Attributes:
        kind: of it ("fp add", "load").
        count: how many of it, as a vector may be several of the core's own.
        after: operations whose results it takes: their places in the pass, and how many passes before they ran.
        handed: the store whose value a load finds, likewise; None where it finds none that is recent.
        how: the kind of that way from a store to a load.
        crossed: pieces of it that lie across two lines of a cache, in the mean.
        turns: the passes of so many in a row that run it, a bit each; 0 where all do.
        finds: the share of passes in which a load finds what `handed` says.
    """

    kind: str
    count: float
    after: tuple[tuple[int, int], ...] = ()
    handed: tuple[int, int] | None = None
    how: str = ""
    crossed: float = 0.0
    turns: int = 0
    finds: float = 1.0

    @property
    def share(self) -> float:
        """Of the passes, that run it."""
        return self.turns.bit_count() / TURNS if self.turns else 1.0


class CoreLoop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop of the code that runs, as a core sees it: counted in one run of it, without what loops inside do.

    Attributes:
        line: where it begins in the source; 0 of what lies in no loop, or where that is not known.
        passes, entries: of the compiled loop, a pass of which may be many trips of the source's.
        operations: of all passes, by kind ("fp add", "load"): vectors in pieces of the widest that there are.
        chain: operations a pass that wait for one another from pass to pass, by kind; "store forward" where a load
            waits for a store before it. Empty where nothing is carried round.
        chain_lines: lines of those.
        branches: conditional branches that ran; `missed` those that a simulated predictor foretold wrongly, most
            of them in `missed_line`, where `missed_share` of the branches were. `tested_lines`: where what most of
            them test was loaded.
        learnt: branches that it foretold wrongly in the first run alone, and then knew by heart.
        innermost: whether it holds no other loop.
        collided: loads that a core started before an older store to the same address was done, and had to undo:
            those that seldom find what was stored a few passes before.
        chain_kept: share of the passes that run all blocks of the chain: in others it is broken.
        depth: operations of the longest way through one pass, by kind.
        restarts: how often the chain begins anew, which may be less often than the loop is entered.
        flow: the operations of a pass in order, where none of them loops; each with the passes that run it.
        missed_after: operations, by kind, that a missed branch waits for in its pass, in the mean.
        dearer: how many times as long mathematical functions take for what the run gave them as for usual
            arguments, by kind ("call sin fp64"; "latency call sin fp64" where one waits for the other; "ordered …"
            of both, where no branch of theirs is foretold wrongly), as measured where the loop was counted.
        places: lines of what is called, divided or rooted, by kind.
        within: the place among all loops of the function of the one around; None of an outermost.
        untraced: why `missed` is of the IR's branches, which the machine code has more than; else "".
    """

    line: int
    passes: int
    entries: int
    operations: dict[str, float]
    chain: dict[str, float] = {}
    chain_lines: tuple[int, ...] = ()
    branches: int = 0
    missed: int = 0
    learnt: int = 0
    missed_line: int = 0
    tested_lines: tuple[int, ...] = ()
    missed_share: float = 0.0
    innermost: bool = True
    collided: float = 0.0
    restarts: int = 0
    chain_kept: float = 1.0
    depth: dict[str, float] = {}
    flow: tuple[FlowStep, ...] = ()
    missed_after: dict[str, float] = {}
    dearer: dict[str, float] = {}
    places: dict[str, tuple[int, ...]] = {}
    within: int | None = None
    untraced: str = ""


class LoopShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop inside one over prange, and how its passes divide among threads.

    Attributes:
        line, last_line: of it in the source.
        shares: of its passes that the thread with the most work has, by the numbers of threads of its region.
    """

    line: int
    last_line: int
    shares: tuple[float, ...]


class Region(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop over prange, or a parallel region of OpenMP's, and how its work divides among threads.

    Attributes:
        line, last_line: of it in the source.
        variable: its own.
        entries, trips: how often it was entered, each time a team starts and joins; trips of all entries.
        threads, shares: numbers of threads, and the share of its work that the thread with the most has, where
            each gets one block of as many trips, or what OpenMP's schedule gives it: 1 / threads where all trips
            are alike.
        chunks: pieces that threads ask for one by one (OpenMP's dynamic and guided schedules).
        loops: those inside it, where one divides otherwise.
    """

    line: int
    last_line: int
    variable: str
    entries: int
    trips: int
    threads: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    chunks: int = 0
    loops: tuple[LoopShare, ...] = ()

    def share(self, threads: int, line: int | None = None) -> float:
        """The largest share of so many threads, which may be smaller than that of more: blocks divide elsewhere.

        With a `line` that of the innermost loop around it, of the thread that has most of all.

        Between the numbers that were counted, its imbalance is theirs, and it is taken to be no smaller than that
        of more threads: a trip that takes long is not divided.
        """
        if threads == 1 or not self.threads:
            return 1 / threads
        around = [] if line is None else [each for each in self.loops if each.line <= line <= each.last_line]
        # of several, the innermost begins last
        shares = max(around, key=lambda each: each.line).shares if around else self.shares
        if threads in self.threads:
            return shares[self.threads.index(threads)]
        known = [(n, share * n) for n, share in zip(self.threads, shares, strict=True)]
        below = max((each for each in known if each[0] <= threads), default=known[0])
        least = max((imbalance / n for n, imbalance in known if n >= threads), default=0.0)
        return min(1.0, max(least, below[1] / threads))
