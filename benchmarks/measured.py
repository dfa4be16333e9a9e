"""Measured times to hold predictions against, each with the report that predicts it.

Read from folders that are not part of the project (`--truth`, `--data`; by default `shared/truth` and
`shared/data` beside the checkout): operator and model times as `truth/*.json`; kernel tables are in
`kernel_tables.py`. Public architectures need transformers, torchvision and timm. What cannot be read or predicted
is a `LeftOut`, never an error.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.machine import Machine
from rooflab.types.report import Report
from rooflab.types.work import RECORDING

SHARED = Path(__file__).resolve().parents[2] / "shared"


class Case(NamedTuple):
    """One measured time.

    Attributes:
        table: the table that it belongs to ("operators, warm").
        kind: its sort within it ("matmul").
        name: of the case.
        report: what was run, without a machine.
        machine: what it ran on.
        measured_s: seconds.
        settings: how it was run: mode, cache, power.
        program: runs it on PyTorch's meta device, for peers that look at PyTorch programs; None without.
    """

    table: str
    kind: str
    name: str
    report: Report
    machine: Machine
    measured_s: float
    settings: dict[str, Any]
    program: Callable[[], Any] | None = None

    @property
    def part(self) -> str:
        """In the third that no constant is fitted on ("aside"), fixed by the case's name, or not ("fit")."""
        return "fit" if zlib.crc32(f"{self.table}: {self.name}".encode()) % 3 else "aside"


class LeftOut(NamedTuple):
    """Measured times that no prediction is held against: `where` (a file, or a case of it) and `why`."""

    where: str
    why: str


# What PyTorch and the builders of cases raise about a case that they do not know.
CANNOT = (
    RooflabError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    NotImplementedError,
    ImportError,
)

# Files of models by what their names begin with: the code beside them that builds the models has the same name.
PUBLIC = "public_models"
OWN = "models"


@functools.cache
def module(path: Path) -> ModuleType:
    """The Python file at `path`, imported."""
    spec = importlib.util.spec_from_file_location(f"measured_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def operators(truth: Path) -> Iterator[Case | LeftOut]:
    """Every operator that some `truth/*.json` has times of: warm as `graph_ms`, cold as `cold_ms` over 50 µs."""
    known = None
    for path, found, machine in _files(truth, "ops"):
        code = _source(truth, "ops.py")
        if not code.exists():
            yield LeftOut(path.name, "no ops.py beside it, which makes its cases")
            continue
        ops = module(code)
        known = known or {case["id"]: case for case in ops.cases()}
        for each in found:
            case = known.get(each.get("id"), each)
            name = str(case.get("id", case.get("op")))
            report = _captured(_operator_report, ops, json.dumps(case))
            if not isinstance(report, Report):
                yield LeftOut(f"{path.name}: {name}", report)
                continue
            for column, cache in (("graph_ms", "warm"), ("cold_ms", "cold")):
                ms = each.get(column)
                if ms and (cache == "warm" or ms > 0.05):
                    settings = {"mode": "graph", "cache": cache, "power": "burst"}
                    table = f"operators, {cache}, {path.stem}"
                    run = functools.partial(_run_operator, ops, case)
                    yield Case(table, case["op"], name, report, machine, ms / 1e3, settings, run)


def _files(truth: Path, part: str) -> Iterator[tuple[Path, list[dict[str, Any]], Machine]]:
    """The files of `truth` with a list `part` in them, and the machine that each was measured on."""
    for path in sorted(truth.glob("*.json")):
        found = _read(path)
        if isinstance(found, dict) and found.get(part):
            machine = machine_of(found, path.stem)
            if machine is not None:
                yield path, found[part], machine


def unread(truth: Path) -> Iterator[LeftOut]:
    """The files of `truth` that are no JSON, or of a machine that the catalogue does not have."""
    for path in sorted(truth.glob("*.json")):
        found = _read(path)
        if isinstance(found, str):
            yield LeftOut(path.name, found)
            continue
        judged = isinstance(found, dict) and (found.get("ops") or found.get("models"))
        if judged and machine_of(found, path.stem) is None:
            names = " or ".join(_names(found, path.stem))
            yield LeftOut(path.name, f"no machine in the catalogue is called {names}")


def _read(path: Path) -> Any:
    """What is in a JSON file, or a text that says why it cannot be read."""
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        return f"no JSON: {error}"


def _source(truth: Path, name: str) -> Path:
    """The code that makes the cases: beside the times, else where the project's own are."""
    return truth / name if (truth / name).exists() else SHARED / "truth" / name


def _captured(make: Callable[..., Report], *args: Any) -> Report | str:
    """The report, or why there is none."""
    try:
        return make(*args)
    except CANNOT as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]


@functools.cache
def _operator_report(ops: ModuleType, case_json: str) -> Report:
    """A case of `truth/ops.py`, captured without a GPU."""
    import torch

    case = json.loads(case_json)
    # The flags that its runner sets on a GPU: convolutions without TF32, products with it where asked.
    torch.backends.cuda.matmul.allow_tf32 = case["tensors"][0]["dtype"] == "tf32"
    torch.backends.cudnn.allow_tf32 = False
    real = case["op"].startswith(("spmv", "adam"))  # sparse tensors and optimizers need real ones
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls its CSR support a beta
        return rooflab.analyze(_meta(ops, case, real))


def _run_operator(ops: ModuleType, case: dict[str, Any]) -> Any:
    real = case["op"].startswith(("spmv", "adam"))
    return _meta(ops, case, real)()


def _meta(ops: ModuleType, case: dict[str, Any], real: bool) -> Any:
    import torch

    if real:
        run = ops.runner(case, "cpu")
        if case["op"].startswith("adam"):
            run()  # the first step makes the states; the times are of later ones
        return run
    with torch.device("meta"):  # batch_norm_eval makes tensors of its own
        return ops.runner(case, "meta")


def models(truth: Path, builder: str = OWN) -> Iterator[Case | LeftOut]:
    """Every model time in `truth/*.json` of models that `builder`.py makes, which is `PUBLIC` or `OWN`.

    Eager, on a host whose bare call is given where the file states it; replayed as a graph; compiled (kernels
    only); and of public architectures the sum of the kernels.
    """
    for path, found, machine in _files(truth, "models"):
        if (PUBLIC if path.stem.startswith(PUBLIC) else OWN) != builder:
            continue
        code = _source(truth, f"{builder}.py")
        if not code.exists():
            yield LeftOut(path.name, f"no {builder}.py beside it, which makes its cases")
            continue
        make, card = module(code), path.stem.removeprefix(f"{PUBLIC}_")
        host = _host(path)
        for each in found:
            train = str(each.get("mode")).startswith("train")
            name = f"{each.get('name')}{' train' if train else ''}"
            report = _captured(model_report, make, each.get("name"), each.get("dtype"), train)
            if not isinstance(report, Report):
                yield LeftOut(f"{path.name}: {name}", report)
                continue
            asks = any(line.startswith(RECORDING) for line in report.conventions)
            for table, mode, ms in _model_times(each, builder):
                settings = {"mode": mode, "cache": "warm", "power": "burst", **(host if mode == "eager" else {})}
                run = None if train else functools.partial(_run_model, make, each["name"])
                where = f"{builder.replace('_', ' ')}, {table}, {card}"
                ran = report
                if asks and table == "graph":  # what was replayed is what ran while it was recorded
                    again = _captured(model_report, make, each.get("name"), each.get("dtype"), train, True)
                    ran = again if isinstance(again, Report) else report
                yield Case(where, table, name, ran, machine, ms / 1e3, settings, run)


def _host(path: Path) -> dict[str, float]:
    """The host's time of one bare call as a setting, where the file states it; else the host is one never seen."""
    bare_us = _read(path).get("roofs", {}).get("eager_add_cpu_us")
    return {"dispatch_s": bare_us * 1e-6} if bare_us else {}


def _run_model(builder: ModuleType, name: str) -> Any:
    made, inputs = builder.build(name, "meta")
    return made.eval()(**inputs) if isinstance(inputs, dict) else made.eval()(*inputs)


def _model_times(each: dict[str, Any], builder: str) -> Iterator[tuple[str, str, float]]:
    if str(each.get("mode")).startswith("compiled"):
        if each.get("kernel_sum_ms"):
            yield "compiled", "compiled", each["kernel_sum_ms"]
        return
    if builder == PUBLIC and each.get("kernel_sum_ms"):
        # Replayed graphs of these models took the sum of their kernels, within 3 % for most: no gaps between them.
        yield "kernels", "graph", each["kernel_sum_ms"]
    for table in ("graph", "eager"):
        if each.get(f"{table}_ms"):
            yield table, table, each[f"{table}_ms"]


@functools.cache
def model_report(builder: ModuleType, name: str, dtype: str, train: bool, recorded: bool = False) -> Report:
    """The model `name` that `builder` makes, on meta tensors if it can be; with a training step where `train`.

    `recorded`: as it runs while a CUDA graph is recorded of it.
    """
    import torch

    torch.backends.cudnn.allow_tf32 = False
    formats = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what libraries deprecate is no matter of a benchmark
        _declare_torchvision_operators()
        try:
            made, inputs = builder.build(name, "meta", formats[dtype])
        except (NotImplementedError, RuntimeError):  # its constructor looks at values
            made, inputs = _without_data(*builder.build(name, "cpu", formats[dtype]))
        try:
            return _analyzed(made, inputs, train, name, recorded)
        except RooflabError:  # it looks at values as it runs: it is run on the CPU, for the kernels of a GPU
            made, inputs = builder.build(name, "cpu", formats[dtype])
            return _analyzed(made, inputs, train, name, recorded)


def _without_data(made: Any, inputs: Any) -> tuple[Any, Any]:
    """A module and its inputs on the meta device."""
    if isinstance(inputs, dict):
        moved = {name: each.to("meta") if hasattr(each, "to") else each for name, each in inputs.items()}
        return made.to("meta"), moved
    return made.to("meta"), tuple(each.to("meta") for each in inputs)


def _analyzed(made: Any, inputs: Any, train: bool, name: str, recorded: bool) -> Report:
    import torch

    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    if train:
        made.train()
        return rooflab.analyze(
            made, *args, kwargs=kwargs, backward=True, optimizer="adam", device="cuda", name=name
        )
    made.eval()
    with torch.no_grad():
        return rooflab.analyze(made, *args, kwargs=kwargs, device="cuda", name=name, recorded=recorded)


@functools.cache
def _declare_torchvision_operators() -> Any:
    """Lets torchvision be imported where its compiled part is of another PyTorch: models need none of it."""
    import torch

    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None  # building such a model says so
    try:
        for library in Path(found.origin).parent.glob("_C*.so"):
            torch.ops.load_library(str(library))
    except (OSError, RuntimeError):
        operators = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return operators  # kept by the cache: they are declared as long as it lives
    return None


def machine_of(found: dict[str, Any], stem: str) -> Machine | None:
    """The machine of a truth file, by the name that its driver printed, else by the file's name; None: unknown."""
    for name in _names(found, stem):
        try:
            return rooflab.machine(name)
        except RooflabError:
            continue  # the next name; `unread` says so where none is known
    return None


def _names(found: dict[str, Any], stem: str) -> list[str]:
    meta = found.get("meta", {})
    names = [meta.get("props", {}).get("name")]
    names += [line.split(",")[0] for line in meta.get("smil", "").splitlines()[1:]]
    return list(dict.fromkeys([*(name for name in names if name), stem]))
