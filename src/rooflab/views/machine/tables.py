"""What the terminal and the page say of a machine, as plain rows of text: one definition for both."""

from __future__ import annotations

from collections.abc import Iterable

from rooflab import units
from rooflab.model.roofline import roofline as model
from rooflab.types.machine import BLAS_VARIABLES, DISK, Level, Machine, Rate, Scope, is_main_memory, is_storage
from rooflab.views.common.table import UNKNOWN, Table, capacity, lasting, quantity, rate_text, without_empty
from rooflab.views.machine import libraries, theory

FAR = 0.6  # a kernel under that share of its roof is bound by neither
_STORING = ("write", "copy", "scale", "add", "triad", "dot")  # scale, add and dot: other tools


def every(machine: Machine) -> tuple[Table, ...]:
    """All tables of `machine` that have a row, in reading order."""
    every_table = (
        levels(machine),
        stores(machine, "all"),
        stores(machine, "core"),
        peaks(machine),
        theory.factors(machine, instruction),
        points(machine),
        disk(machine),
        links(machine),
        runtimes(machine),
        *libraries.every(machine),
        clocks(machine),
        parts(machine),
    )
    return tuple(table for table in every_table if table.rows)


def levels(machine: Machine) -> Table:
    """Capacity, latency and read bandwidth of each level of the memory hierarchy, near to far."""
    unit, reading = machine.compute_unit or "unit", _reading(machine)
    small: Scope = "sm" if any(rate.scope == "sm" for level in machine.levels for rate in level.rates) else "core"
    rows = []
    for level in _memories(machine):
        one, all_ = level.rate(scope=small, basis="attained"), level.rate(scope="all", basis="attained")
        theory = level.rate(scope="all", basis="theoretical")
        rows.append(
            (
                level.name,
                capacity(level.capacity_bytes),
                capacity(level.reported_capacity_bytes),
                lasting(level.latency_s),
                _percent(level.latency_spread),
                rate_text(one),
                rate_text(all_),
                _spread(one, all_),
                lasting(level.loaded_latency_s),
                _shared(level, unit),
                rate_text(theory),
            )
        )
    measured = is_measured(machine)
    columns = (
        "level",
        "found" if measured else "capacity",
        # What a system reports: of the machine it runs on, else of the one that was asked once.
        "OS says" if measured else "usable",
        "latency",
        "its spread",
        f"{reading}, one {small}",
        f"{reading}, all",
        "spread",
        "loaded",
        "shared by",
        "theory, all",
    )
    table = without_empty("Memory", columns, rows, note=_memory_note(machine))
    # Names alone say nothing: what another tool streamed stands in the table of streams.
    return table if len(table.columns) > 1 else table._replace(rows=())


def stores(machine: Machine, scope: Scope) -> Table:
    """Write, copy and triad of each level, with ordinary and with non-temporal stores."""
    kinds = tuple((what, kind) for what in _STORING for kind in ("ordinary", "nontemporal"))
    memory_is_there = any(is_main_memory(level) for level in machine.levels)
    rows = []
    for level in _memories(machine):
        # Non-temporal stores pass the caches by: what a set that fits one attains is the memory's rate.
        cells = tuple(
            UNKNOWN
            if kind == "nontemporal" and not is_main_memory(level) and memory_is_there
            else rate_text(_stored(level, what, kind, scope))
            for what, kind in kinds
        )
        if set(cells) != {UNKNOWN}:
            rows.append((level.name, *cells))
    columns = ("level", *(f"{what}{' NT' if kind == 'nontemporal' else ''}" for what, kind in kinds))
    note = (
        "Bytes that the program requests (STREAM): write 8, copy 16, triad 24 per double. NT: non-temporal "
        "stores, which pass the caches by, so there is one number, the memory's."
    )
    return without_empty(f"Stores, {who(machine, scope)}", columns, rows, note=note)


def peaks(machine: Machine) -> Table:
    """Arithmetic: attained by one core and by all, beside theory."""
    groups: dict[str, list[Rate]] = {}
    for rate in machine.peaks:
        groups.setdefault(instruction(rate), []).append(rate)
    small: Scope = "sm" if any(rate.scope == "sm" for rate in machine.peaks) else "core"
    rows = []
    for name, rates in groups.items():
        one, all_ = _pick(rates, small, "attained"), _pick(rates, "all", "attained")
        theory_one, theory = _pick(rates, small, "theoretical"), _pick(rates, "all", "theoretical")
        pair = (all_, theory) if all_ and theory else (one, theory_one)
        share = _percent(pair[0].value / pair[1].value, 1) if pair[0] and pair[1] else UNKNOWN
        texts = (rate_text(one), rate_text(all_), rate_text(theory or theory_one))
        rows.append((name, *texts, share, _spread(one, all_)))
    columns = ("instruction", f"one {small}", "all", "theory", "of theory", "spread")
    # A measured rate's note is its register width.
    remarks = (
        (name, rate.note) for name, rates in groups.items() for rate in rates if rate.basis == "theoretical"
    )
    note = f"One fused multiply-add is two FLOP. Dense, never sparse.{_remarks(remarks)}"
    return without_empty("Arithmetic", columns, rows, note=note)


def points(machine: Machine) -> Table:
    """The known kernels under the roofs."""
    rows, above, below = [], [], []
    for point in machine.points:
        under = model.place(point, machine)
        if under is not None and under.share > 1:
            above.append(point.name)
        if under is not None and under.share < FAR:
            below.append(f"{point.name} {units.percent(under.share)}")
        rows.append(
            (
                point.name,
                point.level or UNKNOWN,
                under.bound if under else UNKNOWN,
                under.binds if under else UNKNOWN,
                f"{point.intensity:.3g}",
                units.si(point.flop_per_s, "FLOP/s"),
                _percent(under.share) if under else UNKNOWN,
            )
        )
    columns = ("kernel", "level", "bound", "binds", "FLOP/byte", "attained", "of roof")
    note = f"Bytes are compulsory: each array crosses once.{_blas(machine)}"
    if below:
        note += (
            f" Under {units.percent(FAR)} of the roof ({', '.join(below)}): neither bandwidth nor peak set "
            "that time, "
            "the kernel's own code did (its library, its threads, its size)."
        )
    if above:
        cause = "it was measured beside other work, or reads and writes together move more than reads alone"
        note += f" Above the roof ({', '.join(above)}): {cause}."
    return without_empty("Known kernels", columns, rows, words=4, note=note)


def _blas(machine: Machine) -> str:
    """What is known of the library behind matmul, and what the environment made of it; empty where nothing."""
    facts = machine.environment
    kernels = facts.get("blas")
    said = f" matmul: {kernels}." if kernels else ""
    told = [f"{name}={facts[name]}" for name in BLAS_VARIABLES if name in facts]
    if not told or not any(point.name == "matmul" for point in machine.points):
        return said
    return f"{said} The environment decides how: {', '.join(told)}. Without it matmul may take another time."


def disk(machine: Machine) -> Table:
    """What the disk does, or the page cache or the memory in its place."""
    rows, notes, title = [], [], DISK.capitalize()
    for level in machine.levels:
        if is_storage(level):
            title = level.name.capitalize()
            rows += [(rate.what, rate_text(rate), _percent(rate.spread)) for rate in level.rates]
            notes += [note for note in (level.note, *(rate.note for rate in level.rates)) if note]
    return without_empty(title, ("access", "rate", "spread"), rows, note="; ".join(dict.fromkeys(notes)))


def links(machine: Machine) -> Table:
    """Connections, one direction."""
    rows = [
        (
            link.name,
            link.to,
            quantity(link.each_way_bytes_per_s, "B/s"),
            lasting(link.latency_s),
            _percent(link.spread),
            {True: "both at once", False: "one at a time", None: UNKNOWN}[link.duplex],
        )
        for link in machine.links
    ]
    remarks = _remarks((link.name, "; ".join(filter(None, (link.topology, link.note)))) for link in machine.links)
    note = f"Bandwidth is of one direction; datasheets often print both added.{remarks}"
    return without_empty(
        "Links", ("link", "to", "each way", "latency", "its spread", "directions"), rows, words=2, note=note
    )


def runtimes(machine: Machine) -> Table:
    """What a call costs that computes nothing."""
    rows = [
        (
            each.framework,
            each.version or UNKNOWN,
            lasting(each.dispatch_s),
            lasting(each.launch_s),
            _percent(each.spread),
        )
        for each in machine.runtimes
    ]
    columns = ("framework", "version", "dispatch", "launch", "spread")
    return without_empty("Call overhead", columns, rows, words=2, note="One call that computes nothing.")


def clocks(machine: Machine) -> Table:
    """Clock rates."""
    rows = [(rate.what, rate.basis, rate_text(rate), _percent(rate.spread)) for rate in machine.clocks]
    return without_empty("Clock", ("clock", "basis", "rate", "spread"), rows, words=2)


def parts(machine: Machine) -> Table:
    """What the machine is made of."""
    rows = [
        (part.name, part.machine or UNKNOWN, part.note or UNKNOWN, f"{part.count:,}") for part in machine.parts
    ]
    return without_empty("Parts", ("part", "machine", "what", "count"), rows, words=3)


def environment(machine: Machine) -> Table:
    """What was true when it was measured."""
    rows = [
        (key, ", ".join(value) if isinstance(value, list) else str(value))
        for key, value in machine.environment.items()
    ]
    return Table("Environment", ("what", "value"), tuple(rows), words=2)


def facts(machine: Machine) -> tuple[str, ...]:
    """Two or three sentences under the machine's name: what it is, what of it is granted, its clock."""
    identity = [machine.environment.get(key) for key in ("microarchitecture", "isa")]
    count, unit = machine.compute_units, machine.compute_unit or "unit"
    many = f"{count:,} {unit}{'s' if count != 1 else ''}" if count else None
    year = str(machine.year) if machine.year else None
    power = f"{machine.tdp_w:,.0f} W" if machine.tdp_w else None
    words = [*identity[:1], many, *(_clock(rate) for rate in machine.clocks), power, year]
    first = ", ".join(str(word) for word in words if word)
    granted = machine.environment.get("granted")
    stopped = f"Incomplete: {machine.incomplete}." if machine.incomplete else None
    # Where there is no disk, its place in the environment says why.
    why = str(machine.environment.get(DISK, ""))
    no_disk = f"{why[:1].upper()}{why[1:]}." if why else None
    lines = (first, granted, machine.note, stopped, no_disk, _misplaced(machine))
    return tuple(str(line) for line in lines if line)


def ridge_sentence(machine: Machine, scope: Scope = "all") -> str:
    """For each peak the intensity under which the main memory binds; empty where there is no roofline."""
    roofs = model.roofs(machine, scope)
    memory = model.memory_roof(roofs, machine)
    if memory is None or not roofs.peaks:
        return ""
    each = ", ".join(
        f"{peak.name} {model.ridge(peak.value, model.alike(memory, peak)):.3g}" for peak in roofs.peaks
    )
    several = len(roofs.peaks) > 1
    mixed = len({peak.rate.basis for peak in roofs.peaks}) > 1
    how = (
        " (an attained peak over the attained bandwidth, a theoretical one over the theoretical)" if mixed else ""
    )
    return (
        f"Ridge point{'s' if several else ''}: {each} FLOP/byte{how}; "
        f"below {'them' if several else 'it'} {memory.name} binds."
    )


def is_measured(machine: Machine) -> bool:
    """Whether rooflab measured `machine` itself: only then is it known what was true meanwhile."""
    return bool(machine.environment)


def who(machine: Machine, scope: Scope) -> str:
    """Whose rate a rate of `scope` is: "one core", "all 2 granted cores", "all 132 SMs"."""
    if scope != "all":
        return f"one {scope}"
    count, unit = machine.compute_units, machine.compute_unit or "unit"
    granted = "granted " if is_measured(machine) else ""
    if count is None:
        return "the whole machine"
    return f"all {count:,} {granted}{unit}s" if count != 1 else f"the one {granted}{unit}"


def _memories(machine: Machine) -> list[Level]:
    return [level for level in machine.levels if not is_storage(level)]


def _misplaced(machine: Machine) -> str | None:
    """A sentence where a roof is not above that of a level further away."""
    names = model.dominated(model.roofs(machine))
    if not names:
        return None
    return f"Not faster than a level further away, so do not trust its roof: {', '.join(names)}."


def _reading(machine: Machine) -> str:
    """The stream that the levels' bandwidths are of."""
    streams = {rate.what for level in _memories(machine) for rate in level.rates}
    return "read" if "read" in streams else "bandwidth"


def _memory_note(machine: Machine) -> str:
    shown = [level.rate(scope="all") or level.rate(scope="core") for level in _memories(machine)]
    if not any(shown):
        return ""
    if not is_measured(machine):
        return f"GB is 1e9 bytes, KiB 1,024.{_remarks((level.name, level.note) for level in _memories(machine))}"
    threads = machine.environment.get("threads_that_saturate_memory")
    saturated = f" Threads that saturate memory: {threads}." if threads else ""
    return f"GB is 1e9 bytes, KiB 1,024. Best of the runs; spread is how far the median run is off it.{saturated}"


def _remarks(remarks: Iterable[tuple[str, str | None]]) -> str:
    """A sentence for each remark, begun by the names that it is about, with a space before; empty without any."""
    about: dict[str, list[str]] = {}
    for name, text in remarks:
        if text:
            about.setdefault(text.rstrip("."), []).append(name)
    return "".join(f" {', '.join(dict.fromkeys(names))}: {text}." for text, names in about.items())


def _shared(level: Level, unit: str) -> str:
    count = level.shared_by
    return UNKNOWN if not count else f"{count:,} {unit}{'s' if count != 1 else ''}"


def _stored(level: Level, what: str, kind: str, scope: Scope) -> Rate | None:
    fits = [
        rate
        for rate in level.rates
        if (rate.what, rate.scope, rate.basis) == (what, scope, "attained") and (rate.stores or "ordinary") == kind
    ]
    return max(fits, key=lambda rate: rate.value, default=None)


def _pick(rates: list[Rate], scope: Scope, basis: str) -> Rate | None:
    fits = [rate for rate in rates if rate.scope == scope and rate.basis == basis]
    return max(fits, key=lambda rate: rate.value, default=None)


def _clock(rate: Rate) -> str:
    return f"{units.si(rate.value, 'Hz')} {rate.what}"


def instruction(rate: Rate) -> str:
    """What is computed: "fp64 fma", "fp64 fma scalar", "fp16 fma matrix, sum in fp32".

    A sum in the operands' own format goes without saying, but in fp16: there it is the trap.
    """
    engine = None if rate.engine == "vector" else rate.engine
    words = " ".join(word for word in (rate.dtype, rate.what, engine) if word)
    usual = rate.accumulate is None or (rate.accumulate == rate.dtype != "fp16")
    return words if usual else f"{words}, sum in {rate.accumulate}"


def _spread(*rates: Rate | None) -> str:
    """The widest spread of the rates that have one."""
    spreads = [rate.spread for rate in rates if rate is not None and rate.spread is not None]
    return _percent(max(spreads, default=None))


def _percent(share: float | None, digits: int = 0) -> str:
    return UNKNOWN if share is None else units.percent(share, digits)
