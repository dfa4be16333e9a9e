"""Loops in LLVM IR that time what goes between a core's registers of vectors and of whole numbers: conversions."""

from __future__ import annotations

from rooflab.machines.bench.experiments.core_programs import looped

ROUND_TRIPS, APART = 4, 10  # of a pass
_LOADED = "entry:\n  %f = load double, ptr %fp\n  %g = load double, ptr %gp"


def round_trips(kind: str = "i64") -> str:
    """A number that becomes a whole one, which is computed with, and a number again, one after the other."""
    lines, before = [f"  %c = phi double [ %f, %entry ], [ %c{ROUND_TRIPS - 1}, %loop ]"], "%c"
    for n in range(ROUND_TRIPS):
        lines += [
            f"  %t{n} = fptosi double {before} to {kind}",
            f"  %u{n} = xor {kind} %t{n}, %m",
            f"  %v{n} = add {kind} %u{n}, %m",
            f"  %c{n} = sitofp {kind} %v{n} to double",
        ]
        before = f"%c{n}"
    return _kept(looped(lines), [("double", before)]).replace(
        "  br label %loop\nloop", f"  %m = load {kind}, ptr %startp\n  br label %loop\nloop", 1
    )


def from_bytes() -> str:
    """Bytes that become numbers, each with a product and an addition beside: APART of them a pass."""
    phis = [f"  %s{n} = phi double [ %f, %entry ], [ %a{n}, %loop ]" for n in range(APART)]
    lines = [
        line
        for n in range(APART)
        for line in (
            f"  %p{n} = getelementptr i8, ptr %startp, i64 {n}",
            f"  %x{n} = load volatile i8, ptr %p{n}",
            f"  %y{n} = uitofp i8 %x{n} to double",
            f"  %m{n} = fmul double %y{n}, %g",
            f"  %a{n} = fadd double %s{n}, %m{n}",
        )
    ]
    return _kept(looped([*phis, *lines]), [("double", f"%a{n}") for n in range(APART)])


def to_whole() -> str:
    """Numbers that become whole ones and are stored, each with a product and an addition beside: APART a pass."""
    phis = [f"  %s{n} = phi double [ %f, %entry ], [ %a{n}, %loop ]" for n in range(APART)]
    lines = [
        line
        for n in range(APART)
        for line in (
            f"  %z{n} = fptosi double %s{n} to i32",
            f"  store volatile i32 %z{n}, ptr %out",
            f"  %m{n} = fmul double %s{n}, %g",
            f"  %a{n} = fadd double %f, %m{n}",
        )
    ]
    return _kept(looped([*phis, *lines]), [("double", f"%a{n}") for n in range(APART)])


def to_whole_alone() -> str:
    """The same of numbers that are loaded, and nothing beside."""
    lines = [
        line
        for n in range(APART)
        for line in (
            f"  %d{n} = load volatile double, ptr %fp",
            f"  %z{n} = fptosi double %d{n} to i32",
            f"  store volatile i32 %z{n}, ptr %out",
        )
    ]
    return _kept(looped(lines), [])


def _kept(text: str, made: list[tuple[str, str]]) -> str:
    """`text` with what it needs loaded before, and what it made stored after."""
    stored = "".join(f"  store volatile {kind} {name}, ptr %out\n" for kind, name in made)
    return text.replace("  ret void", f"{stored}  ret void").replace("entry:", _LOADED, 1)
