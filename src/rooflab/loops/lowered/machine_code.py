"""Machine code of optimised IR: what a core is given in each block, and which selects became branches there.

LLVM's code generator writes beside each block of its assembly which block of the IR it is. Instructions are sorted
into the kinds of `operations`; "slot" counts what passes through the front of the core. Only x86 is read: of other
processors the IR itself is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from llvmlite import binding

from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import ir_text
from rooflab.loops.lowered.ir_text import VALUE, Function

BLOCK = re.compile(r"^(?:\.LBB\d+_\d+:|# %bb\.\d+:)\s*(?:#\s*(?P<name>%(?:\"[^\"]*\"|[^\s]+)))?")
_LABEL = re.compile(r"^(\.LBB\d+_\d+):")
_SELECT = re.compile(r"= select (?:[a-z ]+ )?i1 (%\S+), (?:double|float|half|i(?:8|16|32|64)|ptr) ")
_LEAST = re.compile(
    r"= (?:tail )?call (?P<kind>i(?:8|16|32|64)) @llvm\.(?P<what>[su](?:min|max))\.i\d+\((?P<operands>[^)]*)\)"
)
_BOTH = re.compile(r"= (?:(?:and|or)(?: disjoint)? i1|select i1 \S+ i1) ")
_NAMED = re.compile(r"^%(?!bb\.\d+$)")
_FUSED = ("cmp", "test", "add", "sub", "inc", "dec", "and")  # with a jump behind it they are one
_SHUFFLES = (
    "vperm", "vshuf", "vunpck", "vinsert", "vextract", "vbroadcast", "vpbroadcast", "vpack", "vpunpck", "valign",
    "vpalign", "vmovddup", "vmovshdup", "vmovsldup", "vmovhlps", "vmovlhps", "vmovhpd", "vmovlpd", "vpshuf",
    "vpermil", "vpinsr", "vpextr", "vpmovzx", "vpmovsx", "vexpand", "vcompress", "vpmov", "vmovmsk",
)  # fmt: skip
# On vectors of whole numbers: on half of the units that add them. Comparisons into a mask are too.
_SHIFTS = (
    "vpsll", "vpsrl", "vpsra", "vprol", "vpror", "vpshld", "vpshrd", "vpabs", "vpopcnt", "vplzcnt", "vpsadbw",
    "vpmaxsq", "vpminsq", "vpmaxuq", "vpminuq", "vptest",
)  # fmt: skip
_WHOLE_SHIFTS = ("sh", "sa", "ro", "rc", "bt", "cmov", "set")  # the same of single whole numbers
# They load less than they make: half a vector or less.
_NARROW = ("vpmovzx", "vpmovsx", "vcvtdq2pd", "vcvtudq2pd", "vcvtps2pd", "vcvtph2ps", "vcvttps2q")
_ADDS = ("vadd", "vsub", "vmin", "vmax", "vcmp", "vucomi", "vcomi", "vrndscale", "vround", "vgetexp", "vfixup")


class Block(NamedTuple):
    """A block of machine code: the IR's block that it is of ("" where the code generator made it), what it holds.

    Attributes:
        name: of the IR's block, with its "%".
        operations: by kind.
        jumps: conditional ones.
        before: numbers of the blocks that lead to it.
    """

    name: str
    operations: Mapping[str, float]
    jumps: int
    before: tuple[int, ...]


def blocks(ir: str, assembly: str = "") -> dict[str, tuple[Block, ...]]:
    """The blocks of each function of a module; nothing where its assembly is not x86's.

    Args:
        ir: the text of the optimised module.
        assembly: what the user's compiler made of it, where that is known; else LLVM makes it here.
    """
    return of_assembly(assembly or written(ir))


def written(ir: str) -> str:
    """The assembly that LLVM makes of a module here; "" where that is not x86's."""
    target = target_machine()
    if not target.triple.startswith(("x86_64", "i686", "amd64")):
        return ""
    target.set_asm_verbosity(True)
    # bytes, as LLVM writes those of constants into comments as they are: what of them is no text is no code
    return target._emit_to_memory(binding.parse_assembly(ir), use_object=False).decode("utf-8", "replace")


def of_assembly(text: str) -> dict[str, tuple[Block, ...]]:
    """As `blocks`, of assembly that is there."""
    found = {}
    for part in re.split(r"\n\s*\.type\s+", text)[1:]:
        name, _, rest = part.partition(",@function")
        if rest:
            found[name.strip().strip('"')] = _blocks(rest.partition(".Lfunc_end")[0])
    return found


def _blocks(text: str) -> tuple[Block, ...]:
    names: list[str] = []
    labels: dict[str, int] = {}
    held: list[list[str]] = []
    for line in text.splitlines():
        match = BLOCK.match(line)
        if match:
            labelled = _LABEL.match(line)
            if labelled:
                labels[labelled[1]] = len(names)
            name = match["name"] or ""
            names.append(name.replace('"', "") if _NAMED.match(name) else "")
            held.append([])
        elif held and line.startswith("\t") and not line.startswith(("\t.", "\t#")):
            instruction = line.partition("#")[0].strip()
            if instruction:
                held[-1].append(instruction)
    before: list[list[int]] = [[] for _ in names]
    for number, instructions in enumerate(held):
        falls = True
        for each in instructions:
            mnemonic, _, operand = each.partition("\t")
            if mnemonic.startswith("j") and operand in labels:
                before[labels[operand]].append(number)
            if mnemonic in ("jmp", "jmpq", "retq", "ret", "ud2"):
                falls = False
        if falls and number + 1 < len(names):
            before[number + 1].append(number)
    return tuple(
        Block(name, *_operations(_as_passed(instructions, number, labels)), tuple(led))
        for number, (name, instructions, led) in enumerate(zip(names, held, before, strict=True))
    )


def _as_passed(instructions: list[str], number: int, labels: Mapping[str, int]) -> list[str]:
    """Those of block `number` that most of its passes come to: not the jump behind one that goes back."""
    if len(instructions) < 2 or not instructions[-1].startswith("jmp"):
        return instructions
    mnemonic, _, operand = instructions[-2].partition("\t")
    back = (
        mnemonic.startswith("j") and mnemonic not in ("jmp", "jmpq") and labels.get(operand, number + 1) <= number
    )
    return instructions[:-1] if back else instructions


def _operations(instructions: list[str]) -> tuple[dict[str, float], int]:
    """What the instructions of a block are by kind, and how many conditional jumps are among them."""
    found: dict[str, float] = {}
    jumps = 0
    last = ""
    for each in instructions:
        mnemonic, _, rest = each.partition("\t")
        if mnemonic.startswith("j"):
            fused = last.startswith(_FUSED)
            found["slot"] = found.get("slot", 0.0) + (0 if fused else 1)
            if fused and found.get("integer"):
                found["integer"] -= 1
            found["branch"] = found.get("branch", 0.0) + 1
            jumps += mnemonic not in ("jmp", "jmpq", "jp", "jnp")
        else:
            for kind, count in _kinds(mnemonic, _split(rest)):
                found[kind] = found.get(kind, 0.0) + count
        last = mnemonic
    return found, jumps


def _split(operands: str) -> list[str]:
    return [each.strip() for each in re.split(r",(?![^(]*\))", operands)] if operands else []


def _kinds(mnemonic: str, operands: list[str]) -> list[tuple[str, float]]:
    """The kinds of operations that an instruction is, its loads and stores among them."""
    whole = " ".join(operands)
    if mnemonic.startswith("lock") or (mnemonic.startswith("xchg") and "(" in whole):
        return [("slot", 4.0), ("locked", 1.0), ("load integer", 1.0), ("store integer", 1.0)]
    if mnemonic.startswith(("nop", "vzeroupper", "prefetch")) or mnemonic in ("ud2", "int3"):
        return [("slot", 1.0)]
    memory = [n for n, each in enumerate(operands) if "(" in each]
    last = len(operands) - 1
    vector = mnemonic.startswith(("v", "k")) and not mnemonic.startswith("vmovs")
    scalar = mnemonic.endswith(("sd", "ss")) or "sd" in mnemonic[-4:] or "ss" in mnemonic[-4:]
    width = " wide" if "zmm" in whole else " vector" if "ymm" in whole or (vector and not scalar) else ""
    if not mnemonic.startswith(("v", "k")) and "mm" not in whole:
        width = " integer"
    if mnemonic.startswith("call"):
        return [("slot", 3.0)]
    if mnemonic.startswith(("push", "pop", "ret")):
        return [("slot", 1.0), ("store integer" if mnemonic.startswith("push") else "load integer", 1.0)]
    if between := _between_registers(mnemonic, operands, memory):
        return between
    if mnemonic.startswith("lea"):
        return [("slot", 1.0), ("integer", 1.0)]
    if picks := re.match(r"vp?(gather|scatter)", mnemonic):
        lanes = float(
            (8 if "zmm" in whole else 4 if "ymm" in whole else 2) * (2 if mnemonic.endswith(("dps", "dd")) else 1)
        )
        return [("slot", lanes), (f"{picks[1]}{' wide' if 'zmm' in whole else ''}", lanes)]
    moves = mnemonic.startswith(("mov", "vmov")) and not mnemonic.startswith(
        ("vmovddup", "vmovshdup", "vmovsldup", "vmovhlps", "vmovlhps", "vmovhpd", "vmovlpd", "vmovmsk")
    )
    if moves or mnemonic.startswith("set"):
        if memory:
            stored = memory[0] == last
            found = [("slot", 1.0), (f"{'store' if stored else 'load'}{width}", 1.0)]
            return found if not mnemonic.startswith("set") else [*found, ("integer shift", 1.0)]
        between = mnemonic.startswith("vmov") and sum("mm" in each for each in operands) == 1
        if between:
            return [("slot", 1.0), ("shuffle", 1.0)]
        chosen = "%k" in whole and mnemonic.startswith("v")
        if chosen or mnemonic.startswith(("movz", "movs", "vmovs", "set")):
            wide = " wide" if width == " wide" else ""
            whole_kind = "integer shift" if mnemonic.startswith("set") else "integer"
            return [("slot", 1.0), (f"vector integer{wide}" if mnemonic.startswith("v") else whole_kind, 1.0)]
        return [("slot", 1.0)]  # renamed, or a constant
    found = [("slot", 1.0)]
    if memory and not mnemonic.startswith("lea"):
        reads_only = mnemonic.startswith(("cmp", "test", "vucomi", "vcomi", "bt", "vptest", "vtest", "vcmp"))
        if memory[0] == last and not reads_only and len(operands) > 0:
            plain = mnemonic.startswith(("vextract", "vpextr", "vpmov", "vcvtps2ph", "vcompress", "vmovhpd"))
            both = [("load integer", 1.0), ("store integer", 1.0), ("slot", 1.0)]
            found += [(f"store{width}", 1.0)] if plain else both
        else:
            narrow = width == " wide" and mnemonic.startswith(_NARROW)
            found.append((f"load{' vector' if narrow else width}", 1.0))
    kind = _arithmetic(mnemonic, operands, "" if width == " integer" else width, bool(memory))
    return [*found, (kind, 1.0)] if kind else found


def _between_registers(mnemonic: str, operands: list[str], memory: list[int]) -> list[tuple[str, float]]:
    """Of what goes between the registers of vectors and those of whole numbers: its kinds; empty of all else."""
    if mnemonic.startswith(("vcvtsi2s", "vcvtusi2s")) and not memory:
        return [("slot", 2.0), ("convert from whole", 1.0)]
    loads = [("load", 1.0)] if memory else []
    if mnemonic.startswith("vcvt") and mnemonic.rstrip("lq").endswith("si"):
        return [("slot", 2.0), ("convert to whole", 1.0), ("to whole", 1.0), *loads]
    if mnemonic.startswith(("vucomis", "vcomis")):
        # two operations on AMD's cores, as conversions are (a Zen 4: six among 48 copies, 8.35 to 10.16 cycles)
        return [("slot", 2.0), ("fp add", 1.0), ("to whole", 1.0), *loads]
    if mnemonic in ("vmovd", "vmovq") and not memory and "mm" not in operands[-1]:
        return [("slot", 1.0), ("to whole", 1.0)]
    return []


def _arithmetic(mnemonic: str, operands: list[str], width: str, memory: bool) -> str:
    """What an instruction computes; "" where that takes no unit."""
    wide = " wide" if width == " wide" else ""
    zeroed = mnemonic.startswith(("xor", "vxor", "vpxor", "sub")) and len(set(operands)) == 1
    if zeroed or mnemonic in ("cqto", "cltd", "cltq", "cwtl"):
        return ""
    if mnemonic.startswith(("vdiv", "vsqrt", "div", "idiv")):
        if not mnemonic.startswith("v"):
            return "integer divide"
        format = "fp64" if mnemonic.endswith(("pd", "sd")) else "fp32"
        return f"{'divide' if 'div' in mnemonic else 'sqrt'} {format}{width}"
    if mnemonic.startswith("vf") and mnemonic[2:4] in ("ma", "ms", "nm"):
        return f"fp multiply-add{width}"
    if mnemonic.startswith("vmul"):
        return f"fp multiply{width}"
    if mnemonic.startswith(_ADDS):
        return f"fp add{width}"
    if mnemonic.startswith("vcvt"):
        return f"convert{width}"
    if mnemonic.startswith(_SHUFFLES):
        broadcast = memory and mnemonic.startswith(("vbroadcast", "vpbroadcast"))
        return "" if broadcast else f"shuffle{wide}"
    if mnemonic.startswith(("vpmul", "vpmadd", "imul", "mul")):
        return f"vector multiply{wide}" if mnemonic.startswith("v") else "integer multiply"
    if mnemonic.startswith(("v", "k")):
        into_mask = mnemonic.startswith("vpcmp") and operands[-1].startswith("%k")
        return f"vector {'shift' if into_mask or mnemonic.startswith(_SHIFTS) else 'integer'}{wide}"
    return "integer shift" if mnemonic.startswith(_WHOLE_SHIFTS) else "integer"


def owners(function: Function, made: tuple[Block, ...]) -> tuple[str, ...]:
    """The label of the IR's block that each is of; one of the code generator's own goes with the one before it."""
    labels = {label.replace('"', ""): label for label in function.blocks}
    found: list[str] = []
    for each in made:
        first = next((n for n in each.before if n < len(found)), None)
        found.append(labels.get(each.name, "" if first is None else found[first]))
    return tuple(found)


def branching(function: Function, made: tuple[Block, ...]) -> dict[str, tuple[str, ...]]:
    """The selects of `function` that became jumps: by their condition, the results that it chooses."""
    jumps: Counter[str] = Counter()
    for each, owner in zip(made, owners(function, made), strict=True):
        jumps[owner] += each.jumps
    found: dict[str, tuple[str, ...]] = {}
    for label, block in function.blocks.items():
        more = jumps[label]
        ends = block.instructions[-1]
        if ends.opcode == "br" and " i1 " in ends.text:
            more -= 1
        by_condition: dict[str, list[str]] = {}
        for each in block.instructions:
            match = _SELECT.search(each.text)
            if match and each.opcode == "select":
                by_condition.setdefault(match[1], []).append(each.result)
            elif each.opcode == "call" and (compared := _compared(each.text)):
                by_condition.setdefault(compared, []).append(each.result)
        made_of_two = {each.result for each in block.instructions if _BOTH.search(each.text)}
        if any(f"br i1 {each}," in ends.text for each in made_of_two):
            more -= 1
        # the code generator makes jumps of those that keep others waiting, from pass to pass
        waits = _carried(block)
        ordered = sorted(by_condition, key=lambda each: not any(one in waits for one in by_condition[each]))
        for condition in ordered[: max(0, more)]:
            found[condition] = tuple(by_condition[condition])
    return found


def _compared(text: str) -> str:
    """The comparison that a call of a minimum or maximum of whole numbers makes; "" of any other."""
    match = _LEAST.search(text)
    if match is None:
        return ""
    first, second = (each.split()[-1] for each in match["operands"].split(","))
    way = {"smin": "slt", "smax": "sgt", "umin": "ult", "umax": "ugt"}[match["what"]]
    return f"icmp {way} {match['kind']} {first}, {second}"


def _carried(block: ir_text.Block) -> set[str]:
    """Results of a block that its phis are computed into and that are computed from them, but through no load."""
    from_phis: set[str] = set()
    needs: dict[str, set[str]] = {}
    for each in block.instructions:
        used = set(VALUE.findall(each.text.partition(" = ")[2]))
        needs[each.result] = used
        if each.opcode == "phi" or (each.opcode not in ("load", "getelementptr") and used & from_phis):
            from_phis.add(each.result)
    todo = [
        value
        for each in block.instructions
        if each.opcode == "phi"
        for value in needs[each.result]
        if value in from_phis and value in needs
    ]
    to_phis: set[str] = set()
    while todo:
        value = todo.pop()
        if value in needs and value not in to_phis:
            to_phis.add(value)
            todo += needs[value] & from_phis
    return to_phis
