"""A file of C compiled three ways: to be counted, as the user optimises it, and as a library that is timed."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from llvmlite import binding

from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.loops import kept
from rooflab.loops.c import absent, compilers, several
from rooflab.loops.c.absent import Library
from rooflab.loops.c.compilers import Compiler
from rooflab.loops.c.debug_info import DebugInfo
from rooflab.loops.c.flags import CXX, Flags
from rooflab.loops.c.openmp import runtime, stubs
from rooflab.loops.c.openmp.runtime import Runtime
from rooflab.loops.compiled.target import target_machine

_ENTRY = "rooflab_entry"
_WHERE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<why>.*)$", re.MULTILINE
)
# Not optimised, with the lines, and so that all that can be in registers is, once LLVM has been asked for that.
_COUNTED = ("-O1", "-g", "-Xclang", "-disable-llvm-passes", "-fno-math-errno")
_QUIET = ("-w", "-fno-sanitize=all", "-fno-stack-protector", "-fno-color-diagnostics")
_NAMED = ("-fno-discard-value-names",)  # by which blocks of machine code are found again
_PLAIN, _OPTIMISED, _LIBRARY, _ASSEMBLY = "plain.bc", "optimised.bc", "library.so", "optimised.s"
_OBJECT, _STAND_INS = "own.o", "stand_ins.o"
_ABSENT, _REFUSED = "absent", "refused"  # names that nobody brings; what a linker said that made no library
_TEAM, _IN_TURN = "team.bc", "in_turn.bc"  # pragmas followed, not optimised; the runtime that it is run with
# Flags and files whose content no preprocessor shows; so are what it names to be taken in later.
_UNSEEN = ("-l", "-L", "-Wl,", "-fprofile", "-fplugin", "-fpass-plugin", "-load", "-include-pch", "-fuse-ld", "@")
_LINKED, _TAKEN_IN = (".a", ".o", ".so", ".bc", ".ll"), (".incbin", "#embed", ".include")
_RANDOM = re.compile(r'"?-dependency-file"? \S+')  # zig's has a name by chance
# Of the user's flags, those that machine code depends on once IR is optimised.
_OF_CODE, _NOT_OF_CODE = ("-O", "-m", "-f", "--target"), ("-flto", "-fsanitize", "-fprofile", "-fcoverage")
_SUFFIX = {False: ".c", True: ".cpp"}


class Built(NamedTuple):
    """What came of a file.

    Attributes:
        plain: the text of the module that is counted.
        optimised: that of the module that the user's flags make; "" where the file is IR.
        address: of the function in the user's own build; 0 where the file is IR.
        said: which compiler and flags.
        library: the user's own build, where there is one, with what stands in it for names that nobody brings.
        assembly: that of the compiler for `optimised`, with the names of its blocks; "" where there is none.
        key: a digest of all that they follow from; "" where it is not known.
        team: the text of the module where OpenMP's pragmas are followed, to be counted thread by thread; "" where
            they are not.
        in_turn: the bitcode of what runs such a team in turn.
        runtime: of OpenMP, with which the user's own build runs; None where it is in sequence.
    """

    plain: str
    optimised: str
    address: int
    said: str
    library: Library | None
    assembly: str = ""
    key: str = ""
    team: str = ""
    in_turn: bytes = b""
    runtime: Runtime | None = None


def build(path: Path, name: str, flags: Flags) -> Built:
    """The function `name` of the file of C at `path`, compiled.

    Raises:
        RooflabError: no compiler; what does not compile, with the first error and its line; a missing library.
        UnknownNameError: no such function, with near matches.
    """
    cxx = path.suffix in CXX
    compiler = compilers.find(cxx, flags.compiler)
    teams = runtime.find() if flags.openmp else None
    with tempfile.TemporaryDirectory(prefix="rooflab-c-") as folder:
        entry = Path(folder) / f"entry{_SUFFIX[cxx]}"
        entry.write_text(_entry(path, name, cxx) + _behind(path, flags, teams, cxx), "utf-8")
        key = _key(compiler, flags, entry) if kept.is_on() else None
        made, held = None if key is None else kept.find(key), True
        if made is None:
            made, held = _compiled(path, name, flags, compiler, entry, teams is not None), key is None
        loaded, made = _opened(path, flags, compiler, entry, teams is not None, made)
        if key is not None and not held:
            kept.keep(key, made)
    address = ctypes.c_void_p.in_dll(loaded.handle, _ENTRY).value
    plain, optimised = (made[each].decode() for each in (_PLAIN, _OPTIMISED))
    # data of the file may stand in it, as bytes of any kind
    assembly = made[_ASSEMBLY].decode("utf-8", "replace")
    said = f"{compiler.name}, {flags.said}"
    return Built(
        plain,
        optimised,
        address or 0,
        said,
        loaded,
        assembly,
        key or "",
        made.get(_TEAM, b"").decode(),
        made.get(_IN_TURN, b""),
        teams,
    )


def _compiled(
    path: Path, name: str, flags: Flags, compiler: Compiler, entry: Path, teams: bool
) -> dict[str, bytes]:
    """What the compiler makes of `entry`: the texts of both modules, the assembly of the second, the library.

    Where OpenMP was asked for, also the module with its pragmas followed; `teams`: and so in the user's own build.
    """
    folder = entry.parent
    headers = ["-idirafter", str(stubs.HEADERS)]
    own = _own_words(flags, teams)
    counted = [*flags.counted, *headers]
    words = {
        _PLAIN: [*counted, *(stubs.IN_SEQUENCE if flags.openmp else ()), *_COUNTED, "-c", "-emit-llvm"],
        _OPTIMISED: [*own, *_NAMED, "-g", "-fPIC", "-c", "-emit-llvm"],
        _LIBRARY: [*own, "-shared", "-fPIC", *flags.files],
    }
    if flags.openmp:
        words[_TEAM] = [*counted, *stubs.FOLLOWED, stubs.IN_TURN, *_COUNTED, "-c", "-emit-llvm"]
    running = {
        out: compilers.run(
            compiler, [*each, *_QUIET, str(entry), *_libraries(each), "-o", str(folder / out)], flags.folder
        )
        for out, each in words.items()
    }
    modules = {out: [*each, *_QUIET] for out, each in words.items() if out != _LIBRARY}
    others = several.begun(compiler, flags, modules, folder)
    errors = {_OPTIMISED: running[_OPTIMISED].communicate()[1]}
    ended = [(process.communicate()[1], process.returncode) for process in others.values()]
    refused = [said for said, code in ended if code]
    assembling = None
    if not running[_OPTIMISED].returncode and not refused:
        if flags.files:
            several.join(flags, folder, _OPTIMISED)
        assembling = _assembling(compiler, flags, folder)
    errors |= {out: process.communicate()[1] for out, process in running.items() if out not in errors}
    if assembling is not None:
        assembling.communicate()
    for out, process in running.items():
        if process.returncode and not (out == _LIBRARY and absent.named_in(errors[out])):
            raise _failed(path, name, errors[out], compiler, flags, entry)
    if refused:
        raise _refused(path, refused[0], compiler, flags)
    for out in modules if flags.files else ():
        if out != _OPTIMISED:
            several.join(flags, folder, out)
    assembly = folder / _ASSEMBLY
    made = {out: _read(folder / out, compiler.name).encode() for out in modules}
    if flags.openmp:
        made[_IN_TURN] = _in_turn(compiler, folder)
    made[_ASSEMBLY] = assembly.read_bytes() if assembly.is_file() else b""
    if running[_LIBRARY].returncode:
        made |= {_LIBRARY: b"", _REFUSED: errors[_LIBRARY].encode()}
    else:
        made[_LIBRARY] = (folder / _LIBRARY).read_bytes()
    return made


def _own_words(flags: Flags, teams: bool) -> list[str]:
    """What the compiler is told for the user's own build; `teams`: OpenMP's pragmas are followed."""
    openmp = stubs.FOLLOWED if teams else stubs.IN_SEQUENCE if flags.openmp else ()
    return [*flags.given, "-idirafter", str(stubs.HEADERS), *openmp]


def _opened(
    path: Path, flags: Flags, compiler: Compiler, entry: Path, teams: bool, made: dict[str, bytes]
) -> tuple[Library, dict[str, bytes]]:
    """The user's own build loaded, and what was `made` with it: with stand-ins for names that nobody brings.

    Raises:
        RooflabError: it cannot be linked or loaded, and not for want of a name.
    """
    folder = entry.parent
    library, own = folder / _LIBRARY, _own_words(flags, teams)
    library.write_bytes(made[_LIBRARY])

    def link(names: tuple[str, ...]) -> str:
        first, then = folder / _OBJECT, folder / _STAND_INS
        absent.stand_ins(names, made[_OPTIMISED].decode(), then)
        linked = [str(first), *flags.files, str(then), *_libraries(own)]
        words = [[*own, "-shared", "-fPIC", *linked, "-o", str(library)]]
        if not first.is_file():
            words.insert(0, [*own, "-fPIC", "-c", str(entry), "-o", str(first)])
        for each in words:
            process = compilers.run(compiler, [*each, *_QUIET], flags.folder)
            errors = process.communicate()[1]
            if process.returncode:
                return errors or "the linker gave up"
        return ""

    known = tuple(made.get(_ABSENT, b"").decode().split("\n")) if made.get(_ABSENT) else ()
    found = absent.opened(library, known, made.get(_REFUSED, b"").decode(), link)
    if isinstance(found, str):
        undefined = absent.named_in(found)
        if undefined:
            raise _missing(path, undefined[0])
        raise RooflabError(f"{path}: what was compiled cannot be loaded: {found.strip()}")
    if found.absent != frozenset(known):
        made = {**made, _LIBRARY: library.read_bytes(), _ABSENT: "\n".join(sorted(found.absent)).encode()}
    return found, {name: each for name, each in made.items() if name != _REFUSED}


def _key(compiler: Compiler, flags: Flags, entry: Path) -> str | None:
    """A digest of all that the compiler's work on `entry` follows from; None where not all of it can be seen.

    What the preprocessor makes of it is asked for each time: no header can have changed, or appeared, unseen. With
    that the compiler says its version, and how it calls itself.
    """
    if any(each.startswith(_UNSEEN) or each.endswith(_LINKED) for each in flags.given):
        return None
    openmp = stubs.FOLLOWED if flags.openmp else ()
    headers = ("-idirafter", str(stubs.HEADERS))
    process = compilers.run(
        compiler, [*flags.given, *openmp, *headers, "-v", "-E", str(entry), *flags.files], flags.folder, read=True
    )
    text, said = process.communicate()
    if process.returncode or any(each in text for each in _TAKEN_IN):
        return None
    called = _RANDOM.sub("", said)
    place = str(entry.parent)
    seen = [each.replace(place, "") for each in (text, called)]
    program = shutil.which(compiler.command[0]) or compiler.command[0]
    stated = Path(program).stat()
    if flags.openmp:
        seen.append((stubs.HEADERS / "team.c").read_text("utf-8"))
    return kept.key("c", seen, flags, compiler, Path(program).resolve(), stated.st_size, stated.st_mtime_ns)


def _in_turn(compiler: Compiler, folder: Path) -> bytes:
    """The bitcode of what runs a team in turn.

    Raises:
        RooflabError: the compiler does not take it.
    """
    out = folder / _IN_TURN
    words = ["-O2", "-x", "c", "-c", "-emit-llvm", *_QUIET, str(stubs.HEADERS / "team.c"), "-o", str(out)]
    process = compilers.run(compiler, words, str(folder))
    errors = process.communicate()[1]
    if process.returncode:
        raise RooflabError(f"{compiler.name} cannot compile what runs teams in turn: {errors.strip():.200}")
    return out.read_bytes()


def _assembling(compiler: Compiler, flags: Flags, folder: Path) -> subprocess.Popen[str]:
    """The compiler that writes machine code of its own optimised IR: the code that is timed, with names of blocks.

    What it refuses is no error: LLVM's own machine code for the same IR then stands for it.
    """
    kept = [each for each in flags.given if each.startswith(_OF_CODE) and not each.startswith(_NOT_OF_CODE)]
    words = [*kept, "-fPIC", "-w", "-S", "-fverbose-asm", "-Xclang", "-disable-llvm-passes"]
    return compilers.run(
        compiler, [*words, str(folder / "optimised.bc"), "-o", str(folder / _ASSEMBLY)], flags.folder
    )


def _libraries(words: list[str]) -> list[str]:
    """Libraries once more behind the file, as linkers want them."""
    return [each for each in words if each.startswith("-l")] + ["-lm"]


def _behind(path: Path, flags: Flags, teams: Runtime | None, cxx: bool) -> str:
    """What goes behind the file where OpenMP was asked for, or its functions may be called."""
    if teams is not None:
        return stubs.of_a_team(cxx)
    return stubs.of_one(cxx) if flags.openmp or stubs.takes_header(path) else ""


def _entry(path: Path, name: str, cxx: bool) -> str:
    """A file that takes in that at `path`, and keeps the address of the function for us, of a static one too.

    Declared once more, an inline function of C becomes one that can be called (C11 6.7.4).
    """
    included = f'#include "{path.resolve()}"\n'
    if cxx:
        return included + f'extern "C" {{ extern void *{_ENTRY}; void *{_ENTRY} = (void *)&{name}; }}\n'
    return included + f"extern __typeof__({name}) {name};\nvoid *{_ENTRY} = (void *)&{name};\n"


def _failed(path: Path, name: str, errors: str, compiler: Compiler, flags: Flags, entry: Path) -> RooflabError:
    """What the compiler refused, in one line; where it was our own file, why the function cannot be had."""
    first = _WHERE.search(errors)
    if first is None or Path(first["file"]).name != entry.name:
        return _refused(path, errors, compiler, flags)
    known = names(path, flags)
    plain = name.rpartition("::")[2]
    if plain in known:
        return RooflabError(
            f"{path}: {name}: {first['why']}: of several functions of that name, of a template or of an object,"
            f' none is meant alone: add one that calls it, as extern "C" void {plain}_double(…)'
        )
    return UnknownNameError("function", name, known, f"(functions of {path})")


def _refused(path: Path, errors: str, compiler: Compiler, flags: Flags) -> RooflabError:
    """The first error of the compiler, with its line."""
    first = _WHERE.search(errors)
    if first is not None:
        return RooflabError(
            f"{first['file']}:{first['line']}: {compiler.name} cannot compile it: {first['why']} ({flags.said})"
        )
    undefined = absent.named_in(errors)
    if undefined:
        return _missing(path, undefined[0])
    lines = errors.splitlines()
    line = next((each for each in lines if "cannot find" in each or "unable to find" in each), "") or next(
        (each for each in lines if "error" in each), errors.strip().partition("\n")[0]
    )
    return RooflabError(f"{path}: {compiler.name} cannot compile it ({flags.said}): {line}")


def names(path: Path, flags: Flags) -> list[str]:
    """The functions that the file of C at `path` defines, static ones too.

    Raises:
        RooflabError: no compiler; what does not compile, with the first error and its line.
    """
    cxx = path.suffix in CXX
    compiler = compilers.find(cxx, flags.compiler)
    with tempfile.TemporaryDirectory(prefix="rooflab-c-") as folder:
        out = Path(folder) / "names.bc"
        words = [
            *flags.counted,
            "-idirafter",
            str(stubs.HEADERS),
            *_COUNTED,
            "-Xclang",
            "-femit-all-decls",
            *_QUIET,
            "-c",
            "-emit-llvm",
        ]
        process = compilers.run(compiler, [*words, str(path.resolve()), "-o", str(out)], flags.folder)
        errors = process.communicate()[1]
        if process.returncode:
            raise _refused(path, errors, compiler, flags)
        found = DebugInfo(_read(out, compiler.name)).subprograms()
    own = str(path.resolve())
    return [each.name for each in found if each.file == own]


def _missing(path: Path, symbol: str) -> RooflabError:
    return RooflabError(
        f"{path}: it calls {symbol}, which is neither in it nor in a library that it is linked with: give the"
        ' library, as --cflags "-O3 -march=native -lNAME", or count a file that has it'
    )


def _read(path: Path, compiler: str) -> str:
    try:
        return str(binding.parse_bitcode(path.read_bytes()))
    except RuntimeError as error:
        version = ".".join(map(str, binding.llvm_version_info))
        raise RooflabError(
            f"what {compiler} makes is not read by LLVM {version} of llvmlite ({error}):"
            " python -m pip install 'rooflab[c]' brings a compiler that fits"
        ) from None


def read_ir(path: Path) -> str:
    """The text of the module in a file of LLVM IR, of this machine's processor.

    Raises:
        FileError: a file that cannot be read, or not as LLVM IR.
        RooflabError: IR for another target.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    try:
        module = binding.parse_bitcode(data) if data[:2] == b"BC" else binding.parse_assembly(data.decode())
    except (RuntimeError, UnicodeDecodeError) as error:
        why = str(error).strip().partition("\n")[0].removeprefix("LLVM IR parsing error").strip() or "no LLVM IR"
        version = ".".join(map(str, binding.llvm_version_info))
        raise FileError(
            f"{path}: LLVM {version} of llvmlite cannot read it: {why}: expected LLVM IR of that version or an"
            " older one (text before LLVM 15 as .bc)"
        ) from None
    here = binding.get_process_triple()
    if module.triple and _target(module.triple) != _target(here):
        raise FileError(
            f"{path}: it is for {module.triple}, and this machine is {here}: compile it for this machine"
        )
    if "p:32:32" in module.data_layout.split("-"):
        raise FileError(
            f"{path}: its pointers have 32 bits, and those of this machine 64: compile it for this machine"
        )
    # text of an older LLVM states an older layout of data, for which no code can be made here
    module.data_layout = str(target_machine().target_data)
    return str(module)


def _target(triple: str) -> tuple[str, str]:
    """The processor and the system of a target."""
    parts = triple.split("-")
    system = next((each for each in parts[1:] if each.startswith(("linux", "darwin", "macos", "windows"))), "")
    return parts[0].replace("amd64", "x86_64"), re.sub(r"[\d.]+$", "", system).replace("macosx", "darwin")
