"""A module of clang's made ready to be counted: what is called in place, scalars in registers, names kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import binding

from rooflab.errors import RooflabError
from rooflab.loops.c.debug_info import DebugInfo, LinesOf, Subprogram
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered.ir_text import Function, functions
from rooflab.loops.lowered.pointers import called

_NAME = r"@(?:[\w.$-]+|\"[^\"]*\")"
_GROUP = re.compile(r"^(attributes #\d+ = \{)(.*)\}$", re.MULTILINE)
_UNWANTED = re.compile(r"\b(?:noinline|optnone|optsize|minsize)\b|\"(?:target-\w+|tune-cpu)\"=\"[^\"]*\"")
_DEFINED = re.compile(r"^define .*$", re.MULTILINE)
_GLOBAL = re.compile(
    rf"^(?P<name>{_NAME}) = (?P<words>(?:[\w()\"-]+ )*?)(?P<what>global|constant) (?P<rest>.*)$", re.MULTILINE
)
ALLOCA = re.compile(r"^\s*(?P<name>%\S+) = alloca (?P<type>.*?)(?:, i(?:32|64) (?P<count>\S+?))?, align \d+")
_TYPES = re.compile(r"^%(?:\"[^\"]*\"|\S+) = type .*$", re.MULTILINE)
# Not for the twin: constructors have run before (`constructors`), and nothing ends after it.
_NOT_ITS_OWN = re.compile(
    r"^@(?:rooflab_entry|llvm\.(?:global_ctors|global_dtors|used|compiler\.used)) = .*\n", re.MULTILINE
)
# An access through an address that is written out: a number, nothing, a fixed place in a variable.
_WRITTEN_OUT = re.compile(
    r"^(?P<indent>\s+)(?P<before>(?:%\S+ = )?(?:load|store|atomicrmw|cmpxchg) .*?)"
    r"ptr (?:null|inttoptr \(i64 (?P<place>-?\d+) to ptr\)|getelementptr (?P<how>[a-z ]*)\((?P<step>[^()]*)\))"
    r"(?P<after>, .*)$",
    re.MULTILINE,
)
_VALUE = r"(?:noundef )?(%(?:[\w.$-]+|\"[^\"]*\")|-?[\d.e+]+)"
_MULTIPLY_ADD = re.compile(
    r"^(\s*)(%\S+) = (?:tail |notail )?call ((?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*)"
    rf"(double|float|<\d+ x (?:double|float)>) @llvm\.fmuladd\.\w+\(\4 {_VALUE}, \4 {_VALUE}, \4 {_VALUE}\)(.*)$",
    re.MULTILINE,
)
_LONG_JUMPS = ("setjmp", "_setjmp", "__sigsetjmp", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk")
# Functions that do more than one thread of a process does, and what.
_PROCESSES = {
    **dict.fromkeys(("pthread_create", "thrd_create"), "starts a thread, which is not counted"),
    **dict.fromkeys(("fork", "vfork", "posix_spawn", "posix_spawnp", "system", "popen"), "starts a process"),
    **dict.fromkeys(("execl", "execle", "execlp", "execv", "execve", "execvp"), "starts another program"),
    **dict.fromkeys(("kill", "raise", "pthread_kill", "pthread_exit"), "ends the process"),
}
_THREAD = "_ZNSt6thread15_M_start_thread"  # how std::thread's begins
_SIMPLE = ("sroa",)
_TOGETHER = (
    "lower_invoke",
    "always_inliner",
    "global_dead_code_eliminate",
    "sroa",
    "dead_code_elimination",
    "sroa",
)
NO_ATTRIBUTES = "nounwind"


class Variable(NamedTuple):
    """A variable of the module: name in the IR, in the source, its type there, its first value, what it is."""

    name: str
    said: str
    kind: str
    start: str


class Lowered(NamedTuple):
    """A function of C in LLVM IR, with all that it calls in place.

    Attributes:
        ir: the text of its module.
        main: its name there.
        functions: that the module defines.
        header: types of its parameters in the IR; `wide`: "signext" or "zeroext" of those that are filled up.
        result: the type of what it returns.
        variables: of the module.
        arrays: what stays on the stack, by the name of its alloca: its type.
        types: declarations of named types.
    """

    ir: str
    main: str
    functions: tuple[Function, ...]
    header: tuple[str, ...]
    wide: tuple[str, ...]
    result: str
    variables: tuple[Variable, ...]
    arrays: dict[str, str]
    types: str


def lower(ir: str, main: Subprogram) -> Lowered:
    """The function `main` of the module `ir`.

    Raises:
        RooflabError: recursion; a jump to a computed label.
    """
    module = binding.parse_assembly(for_here(ir))
    _run(module, _SIMPLE)
    for function in module.functions:
        if function.is_declaration:
            continue
        if function.name == main.linkage:
            function.linkage = "external"  # a static one that nothing calls would be left out
            for argument, parameter in zip(function.arguments, main.parameters, strict=False):
                argument.name = f"arg.{parameter.name}"
        else:
            for number, argument in enumerate(function.arguments):
                # without a name it takes a number, and the first block another
                argument.name = argument.name or f"arg{number}"
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    for variable in module.global_variables:
        if variable.name == "rooflab_entry":
            variable.linkage = "internal"
    _run(module, _TOGETHER)
    text = _NOT_ITS_OWN.sub("", str(module))
    module = binding.parse_assembly(text)
    _run(module, ("global_dead_code_eliminate", "strip_dead_prototype"))
    text = _named_addresses(str(module))
    found = functions(text)
    own = next(each for each in found if each.name == main.linkage)
    _check(found, text, main)
    header = tuple(own.parameters.values())
    result = re.search(rf"(\S+|{{.*?}}|\[.*?\]|<.*?>) @{re.escape(_quoted(main.linkage))}\(", own.header)
    known = DebugInfo(text).globals()
    entry = next(iter(own.blocks.values()))
    arrays = {
        match["name"]: match["type"]
        for each in entry.instructions
        if each.opcode == "alloca" and (match := ALLOCA.match(each.text)) and not match["count"]
    }
    variables = tuple(_variables(text, known))
    return Lowered(
        text,
        main.linkage,
        found,
        header,
        _widened(own),
        result[1] if result else "void",
        variables,
        arrays,
        "\n".join(_TYPES.findall(text)),
    )


def _named_addresses(ir: str) -> str:
    """`ir` where an access through an address that is written out goes through a name, as all others do."""
    number = 0

    def named(match: re.Match[str]) -> str:
        nonlocal number
        number += 1
        name = f"%rl.address{number}"
        step = f"getelementptr {match['how']}{match['step']}"
        place = step if match["step"] else f"inttoptr i64 {match['place'] or '0'} to ptr"
        debug = re.search(r", !dbg !\d+", match["after"])
        made = f"{match['indent']}{name} = {place}{debug[0] if debug else ''}\n"
        return f"{made}{match['indent']}{match['before']}ptr {name}{match['after']}"

    return _WRITTEN_OUT.sub(named, ir)


def _widened(function: Function) -> tuple[str, ...]:
    inside = function.header[function.header.index("(") + 1 :]
    found = []
    for name in function.parameters:
        match = re.search(r"\b(signext|zeroext)\b", inside[: inside.index(name)].rsplit(",", 1)[-1])
        found.append(match[1] if match else "")
    return tuple(found)


def for_here(ir: str) -> str:
    """`ir` for whatever processor it is compiled for, every function free to be put in place."""
    return _GROUP.sub(lambda match: f"{match[1]}{_UNWANTED.sub('', match[2])}}}", ir)


def without_exceptions(ir: str) -> str:
    """`ir` with plain calls in place of those that an exception may come out of; every block has a name.

    By its name a block is found again in machine code.
    """
    module = binding.parse_assembly(ir)
    if "personality" in ir:
        _run(module, ("lower_invoke", "simplify_cfg", "strip_dead_prototype"))
    _run(module, ("instruction_namer",))
    return re.sub(r" personality ptr @[\w.$]+", "", str(module))


def as_instructions(ir: str) -> str:
    """`ir` where a product that is added to is two instructions, if it is compiled for a processor without FMA.

    clang leaves what C lets it join to the code generator, which joins where the target's features have it.
    """
    features = re.findall(r"\"target-features\"=\"([^\"]*)\"", ir)
    if 'target triple = "x86_64' not in ir or not features or any("+fma" in each.split(",") for each in features):
        return ir
    count = 0

    def apart(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        indent, result, how, kind, a, b, c, rest = match.groups()
        rest = re.sub(r"^ #\d+", "", rest)
        product = f"%rl.product{count}"
        made = f"{indent}{product} = fmul {how}{kind} {a}, {b}{rest}\n"
        return f"{made}{indent}{result} = fadd {how}{kind} {product}, {c}{rest}"

    return _MULTIPLY_ADD.sub(apart, ir)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.$-]+", name) else f'"{name}"'


def _run(module: Any, passes: Sequence[str]) -> None:
    manager = binding.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, binding.create_pass_builder(target_machine(), binding.create_pipeline_tuning_options()))


def _check(found: Sequence[Function], ir: str, main: Subprogram) -> None:
    names = {each.name for each in found}
    places = LinesOf(DebugInfo(ir), main.file)
    calls = {each.name: {called(one.text) for one in each.instructions()} & names for each in found}
    for function in found:
        seen, todo = set[str](), [function.name]
        while todo:
            for each in calls[todo.pop()] - seen:
                seen.add(each)
                todo.append(each)
        for each in function.instructions():
            line = places.line(each.debug)
            at = f":{line}" if line else ""
            if each.opcode in ("indirectbr", "callbr"):
                raise RooflabError(
                    f"{main.file}{at}: {main.name}: a jump to a computed label is not read: expected switch"
                )
            if each.opcode in ("call", "invoke") and (why := _beyond(called(each.text))):
                raise RooflabError(
                    f"{main.file}{at}: {main.name}: {called(each.text)} {why}: expected what one thread of this"
                    " process does"
                )
            if each.opcode == "call" and called(each.text) in _LONG_JUMPS:
                raise RooflabError(
                    f"{main.file}:{line}: {main.name}: {called(each.text)}: jumps from function to function are"
                    " not followed: expected loops and returns"
                )
            if each.opcode == "call" and called(each.text) in seen and function.name in seen:
                raise RooflabError(
                    f"{main.file}:{line}: {main.name}: {called(each.text)} calls itself, and recursion is not"
                    " counted: expected loops, with a stack of your own where one is needed"
                )


def _beyond(name: str) -> str:
    """What a function does that one thread of a process does not; "" of any other."""
    return _PROCESSES["pthread_create"] if name.startswith(_THREAD) else _PROCESSES.get(name, "")


def _variables(ir: str, known: dict[str, str] | Any) -> list[Variable]:
    made = []
    for match in _GLOBAL.finditer(ir):
        words = match["words"].split()
        if "external" in words or "extern_weak" in words or match["name"].startswith('@"llvm.'):
            continue
        if match["name"].startswith("@llvm."):
            continue
        kind, start = _split(match["rest"])
        debug = re.search(r"!dbg (!\d+)", start)
        plain = re.sub(r", (?:align \d+|section \".*?\"|comdat\S*|!\w+ !\d+).*$", "", start)
        said = known.get(debug[1], "") if debug else ""
        made.append(Variable(match["name"], said or match["name"].lstrip("@").strip('"'), kind, plain))
    # tables of functions, and what names what is elsewhere, stay where LLVM puts them: their values follow from it
    kept: list[Variable] = []
    while len(kept) != len(made):
        kept, names = made, {each.name for each in made}
        made = [each for each in kept if set(re.findall(_NAME, each.start)) <= names]
    return made


def _split(text: str) -> tuple[str, str]:
    """A type and what follows it."""
    depth = 0
    for n, letter in enumerate(text):
        depth += (letter in "[{<(") - (letter in "]}>)")
        if letter == " " and depth == 0:
            return text[:n], text[n + 1 :]
    return text, ""


def sizes(types: str, wanted: Sequence[str], layout: str) -> dict[str, int]:
    """Bytes of each of the types `wanted`, where `types` declares the named ones."""
    lines = [f'target datalayout = "{layout}"', types]
    lines += [f"@rl.size{n} = external global {each}" for n, each in enumerate(wanted)]
    module = binding.parse_assembly("\n".join(lines))
    data = binding.create_target_data(layout)
    return {
        each: data.get_abi_size(module.get_global_variable(f"rl.size{n}").global_value_type)
        for n, each in enumerate(wanted)
    }


def data_layout(ir: str) -> str:
    """The layout of data that a module states."""
    match = re.search(r'^target datalayout = "(.*)"$', ir, re.MULTILINE)
    return match[1] if match else ""


def bare(header: str) -> str:
    """The first line of a function without what is promised of it, which counting would break."""
    end = header.rindex(")")
    tail = " ".join(re.findall(r"!dbg !\d+", header[end:]))
    return f"{header[: end + 1]} {NO_ATTRIBUTES} {tail} {{"
