"""The FLOP counters people use, on the same 25 small cases: `python benchmarks/counters.py [-o docs/counters.md]`.

Counted: torch's FlopCounterMode, fvcore, ptflops, calflops, torchinfo, thop, onnx-tool, XLA's cost_analysis
and rooflab, as far as they are installed (an environment of its own is best: torch, jax, onnx, transformers,
fvcore, ptflops, calflops, torchinfo, thop, onnx-tool, rooflab). Each case runs once on the CPU with default
settings. The expected figure is of matrix products alone, a multiply-add being 2 FLOP, worked out beside the
case; a count in MAC is doubled. Some counters add biases and activations: up to 5 % more or less passes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import multiprocessing
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from counter_cases import CASES, Call, Case

PASSES = 0.05


def by_rooflab(case: Case) -> float:
    import rooflab

    program, inputs = case.make()
    report = rooflab.analyze(program, *inputs, backward=case.backward, trips=case.trips, device="cpu")
    return sum(
        flop.count * row.op.count
        for row in report.rows
        if row.cost is not None
        for flop in row.cost.flop
        if flop.engine == "matrix" or row.op.kind == "sparse_matmul"
    )


def by_torch(case: Case) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    program, inputs = case.make()
    counter = FlopCounterMode(display=False)
    with counter, torch.set_grad_enabled(case.backward):
        result = program(*inputs)
        if case.backward:
            result.sum().backward()
    return counter.get_total_flops()


def by_fvcore(case: Case) -> float:
    from fvcore.nn import FlopCountAnalysis

    program, inputs = case.make()
    analysis = FlopCountAnalysis(program.eval(), inputs)
    return 2 * analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def by_ptflops(case: Case) -> float:
    from ptflops import get_model_complexity_info

    program, inputs = case.make()
    names = ("a", "b", "c")[: len(inputs)]
    wrapped = Call(lambda **given: program(*given.values()))
    wrapped.program = program
    wrapped.forward = lambda **given: program(*(given[name] for name in names))  # type: ignore[method-assign]
    macs, _ = get_model_complexity_info(
        wrapped,
        (1,),
        as_strings=False,
        print_per_layer_stat=False,
        verbose=False,
        input_constructor=lambda _: dict(zip(names, inputs, strict=True)),
    )
    return 2 * _number(macs)


def by_calflops(case: Case) -> float:
    from calflops import calculate_flops

    program, inputs = case.make()
    _, macs, _ = calculate_flops(program, args=list(inputs), print_results=False, output_as_string=False)
    return 2 * _number(macs)


def by_torchinfo(case: Case) -> float:
    from torchinfo import summary

    program, inputs = case.make()
    return 2 * summary(program, input_data=inputs, verbose=0).total_mult_adds


def by_thop(case: Case) -> float:
    from thop import profile

    program, inputs = case.make()
    return 2 * _number(profile(program, inputs=inputs, verbose=False)[0])


def by_onnx_tool(case: Case) -> float:
    import onnx_tool

    graph = onnx_tool.Model(case.make()[0], {"verbose": False}).graph
    graph.shape_infer()
    graph.profile()
    return 2 * float(graph.macs[0])


def by_xla(case: Case) -> float:
    import jax

    program, inputs = case.make()
    found = jax.jit(program).lower(*inputs).compile().cost_analysis()
    return found["flops"]


class Counter(NamedTuple):
    """A counter: what it is called, its package, the frameworks it reads, whether it sees a backward pass."""

    name: str
    package: str
    module: str
    framework: str
    backward: bool
    count: Callable[[Case], float]


COUNTERS = (
    Counter("rooflab", "rooflab", "rooflab", "torch jax onnx", True, by_rooflab),
    Counter("FlopCounterMode", "torch", "torch", "torch", True, by_torch),
    Counter("fvcore", "fvcore", "fvcore", "torch", False, by_fvcore),
    Counter("ptflops", "ptflops", "ptflops", "torch", False, by_ptflops),
    Counter("calflops", "calflops", "calflops", "torch", False, by_calflops),
    Counter("torchinfo", "torchinfo", "torchinfo", "torch", False, by_torchinfo),
    Counter("thop", "thop", "thop", "torch", False, by_thop),
    Counter("onnx-tool", "onnx-tool", "onnx_tool", "onnx", False, by_onnx_tool),
    Counter("XLA cost_analysis", "jax", "jax", "jax", False, by_xla),
)


def _number(value: Any) -> float:
    if value is None:
        raise ValueError("no count given")
    return float(value)


def count(counter: Counter, case: Case) -> float | str | None:
    """What `counter` says, the name of its error, or None where it does not read such programs.

    In a process of its own: several counters replace PyTorch's functions, and leave them so after an error.
    """
    if case.framework not in counter.framework.split() or (case.backward and not counter.backward):
        return None
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_count, (COUNTERS.index(counter), CASES.index(case)))


def _count(counter: int, case: int) -> float | str:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    quiet = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            warnings.simplefilter("ignore")
            with torch.set_grad_enabled(CASES[case].backward):
                return float(COUNTERS[counter].count(CASES[case]))
    except Exception as error:  # noqa: BLE001 - a counter that fails is a result, whatever it raises
        return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")


def right(found: float | str | None, case: Case) -> bool:
    return isinstance(found, (int, float)) and abs(found - case.expected) <= PASSES * case.expected


def cell(found: float | str | None, case: Case) -> str:
    if found is None:
        return ""
    if isinstance(found, str):
        return "error"
    if right(found, case):
        return "✓"
    return "0" if found == 0 else f"{found / case.expected:.3g} ×"


def table(counters: list[Counter], results: dict[str, list[float | str | None]]) -> str:
    """The page, in Markdown."""
    versions = ", ".join(
        f"{one.name} {importlib.metadata.version(one.package)}"
        for one in counters
        if one.package not in ("torch", "jax")
    )
    missing = [one.name for one in COUNTERS if one not in counters]
    totals = []
    for one in counters:
        pairs = [(found, case) for found, case in zip(results[one.name], CASES, strict=True) if found is not None]
        totals.append(f"**{sum(right(found, case) for found, case in pairs)} of {len(pairs)}**")
    frameworks = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("torch", "jax", "onnx")
        if importlib.util.find_spec(name)
    )
    lines = [
        "# FLOP counters on 25 small cases",
        "",
        "Made by `python benchmarks/counters.py -o docs/counters.md`; do not edit it by hand.",
        "",
        "Expected is the FLOP of matrix products alone, a multiply-add being 2; counts in MAC are doubled. "
        f"✓ means within {PASSES:.0%} (some counters add biases and activations); otherwise the count as a "
        "multiple of what is expected; *error* an exception; an empty cell a kind of program that the counter "
        "does not read (another framework, a backward pass). Every counter runs with its default settings, each "
        "case in a fresh process.",
        "",
        "Most cases come from reports that some counter was wrong on them, so this is no sample of ordinary "
        "models: on plain linear layers and convolutions the counters agree. Biases, activations and bytes, "
        "which rooflab counts apart, are not compared. rooflab runs the products of sparse matrices on the vector "
        "engine; they are added here.",
        "",
        f"Versions: {versions}; {frameworks}; Python {platform.python_version()}."
        + (f" Not installed: {', '.join(missing)}." if missing else ""),
        "",
        "| case | expected FLOP | derivation | " + " | ".join(one.name for one in counters) + " |",
        "|---|--:|---|" + ":-:|" * len(counters),
    ]
    for row, case in enumerate(CASES):
        cells = " | ".join(cell(results[one.name][row], case) for one in counters)
        lines.append(f"| {case.name} | {case.expected:,} | {case.how} | {cells} |")
    lines.append("| **right, of the cases it reads** | | | " + " | ".join(totals) + " |")
    errors = [
        f"- {one.name}, {case.name}: {found}"
        for one in counters
        for found, case in zip(results[one.name], CASES, strict=True)
        if isinstance(found, str)
    ]
    if errors:
        lines += ["", "Errors:", "", *errors]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="Markdown file to write; without it, printed")
    output = parser.parse_args().output
    counters = [one for one in COUNTERS if importlib.util.find_spec(one.module) is not None]
    results: dict[str, list[float | str | None]] = {}
    for one in counters:
        results[one.name] = [count(one, case) for case in CASES]
        print(f"{one.name}: {results[one.name]}", file=sys.stderr)
    page = table(counters, results)
    if output is None:
        print(page)
    else:
        output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
