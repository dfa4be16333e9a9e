"""OpenMP's functions as one thread sees them, for what is counted in sequence; what goes behind a file of C."""

from __future__ import annotations

import re
from pathlib import Path

HEADERS = Path(__file__).parent  # with an omp.h, for compilers that have none
# What clang is told, so that it follows pragmas and links nothing: the runtime is ours to find.
FOLLOWED = ("-Xclang", "-fopenmp")
SIMD = "-fopenmp-simd"
IN_TURN = "-DROOFLAB_IN_TURN"  # a module that is run with `team.c`
IN_SEQUENCE = ("-D_OPENMP=201811",)  # what the macro is where pragmas are followed (OpenMP 5.0)
_ANSWERS = {
    "omp_get_thread_num": "i32 0", "omp_get_num_threads": "i32 1", "omp_get_max_threads": "i32 1",
    "omp_get_num_procs": "i32 1", "omp_get_thread_limit": "i32 1", "omp_in_parallel": "i32 0",
    "omp_get_level": "i32 0", "omp_get_active_level": "i32 0", "omp_get_ancestor_thread_num": "i32 0",
    "omp_get_team_size": "i32 1", "omp_get_dynamic": "i32 0", "omp_get_nested": "i32 0",
    "omp_get_max_active_levels": "i32 1", "omp_in_final": "i32 0", "omp_get_cancellation": "i32 0",
    "omp_get_proc_bind": "i32 0", "omp_get_num_devices": "i32 0", "omp_is_initial_device": "i32 1",
    "omp_test_lock": "i32 1", "omp_test_nest_lock": "i32 1", "omp_get_wtime": "double 0.0",
    "omp_get_wtick": "double 0x3E112E0BE826D695",
    **dict.fromkeys(
        (
            "omp_set_num_threads", "omp_set_dynamic", "omp_set_nested", "omp_set_max_active_levels",
            "omp_set_schedule", "omp_init_lock", "omp_destroy_lock", "omp_set_lock", "omp_unset_lock",
            "omp_init_nest_lock", "omp_destroy_nest_lock", "omp_set_nest_lock", "omp_unset_nest_lock",
        ),
        "void",
    ),
}  # fmt: skip
_DECLARED = re.compile(r"^declare (?:!\w+ !\d+ )*(?P<words>[^@\n]*)@(?P<name>omp_\w+)\((?P<given>.*)\).*$", re.M)
_GIVEN = ("ancestor_thread_num", "team_size", "proc_bind")  # with parameters, or of a type of the header's
_C_TYPES = {"i32": "int", "double": "double", "void": "void"}
# So that threads are as many as are asked for, and an older runtime does for a newer compiler.
_OUR_OWN = (
    "#ifndef ROOFLAB_IN_TURN\n"
    "__attribute__((visibility(\"hidden\"))) void __kmpc_push_num_threads(void *at, int me, int threads) {}\n"
    "__attribute__((visibility(\"hidden\"))) void __kmpc_dispatch_deinit(void *at, int me) {}\n"
    "#endif\n"
)  # fmt: skip


def answered(ir: str) -> str:
    """`ir` with bodies of OpenMP's functions where it only declares them: those of a team of one."""

    def defined(match: re.Match[str]) -> str:
        answer = _ANSWERS.get(match["name"])
        if answer is None:
            return match[0]
        kinds = [each.split()[0] for each in match["given"].split(",") if each.strip()]
        given = ", ".join(f"{kind} %a{n}" for n, kind in enumerate(kinds))
        return f"define internal {answer.split()[0]} @{match['name']}({given}) {{\n  ret {answer}\n}}"

    return _DECLARED.sub(defined, ir)


def takes_header(path: Path) -> bool:
    """Whether a file of C takes in OpenMP's header itself."""
    return re.search(r"#\s*include\s*[<\"]omp\.h", path.read_text("utf-8", "replace")) is not None


def of_a_team(cxx: bool) -> str:
    """What goes behind a file that is compiled with pragmas followed."""
    return _of_c(_OUR_OWN, cxx)


def of_one(cxx: bool) -> str:
    """What goes behind a file that is compiled in sequence: functions that nobody links, as of a team of one.

    Not in a module that is run with `team.c`, which answers for each thread.
    """
    lines = []
    for name, answer in _ANSWERS.items():
        kind, _, value = answer.partition(" ")
        if kind != "void" and "lock" not in name and not name.endswith(_GIVEN):
            said = "0" if kind == "double" else value
            lines.append(f"__attribute__((weak)) {_C_TYPES[kind]} {name}(void) {{ return {said}; }}")
    return _of_c("\n".join(("#ifndef ROOFLAB_IN_TURN", *lines, "#endif\n")), cxx)


def _of_c(text: str, cxx: bool) -> str:
    return f'extern "C" {{\n{text}}}\n' if cxx else text
