"""Measured times to hold predictions against, each with the report that predicts it.

Read from folders that are not part of the project (`--truth`, `--data`; by default `shared/truth` and
`shared/data` beside the checkout): operator and model times as `truth/*.json`, kernel tables as
`data/{gemm,attention,nccl}_*.csv` (ai-dynamo/aiconfigurator, Apache-2.0).
"""

from __future__ import annotations

import csv
import functools
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.machine import Machine
from rooflab.types.report import Report

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


def module(path: Path) -> ModuleType:
    """The Python file at `path`, imported."""
    spec = importlib.util.spec_from_file_location(f"measured_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def operators(truth: Path) -> Iterator[Case]:
    """Every operator that some `truth/*.json` has times of: warm as `graph_ms`, cold as `cold_ms` over 50 µs."""
    ops = module(truth / "ops.py")
    known = {case["id"]: case for case in ops.cases()}
    for path in sorted(truth.glob("*.json")):
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or not found.get("ops"):
            continue
        machine = machine_of(found, path.stem)
        for each in found["ops"]:
            case = known.get(each["id"], each)
            report = operator_report(truth, case["id"])
            if report is None:
                continue
            for column, cache in (("graph_ms", "warm"), ("cold_ms", "cold")):
                ms = each.get(column)
                if ms and (cache == "warm" or ms > 0.05):
                    settings = {"mode": "graph", "cache": cache, "power": "burst"}
                    name = f"operators, {cache}, {path.stem}"
                    run = functools.partial(_run_operator, ops, case)
                    yield Case(name, case["op"], case["id"], report, machine, ms / 1e3, settings, run)


@functools.cache
def operator_report(truth: Path, name: str) -> Report | None:
    """The operator `name` of `truth/ops.py`, captured without a GPU; None where it cannot be."""
    import torch

    ops = module(truth / "ops.py")
    case = next(each for each in ops.cases() if each["id"] == name)
    # The flags that its runner sets on a GPU: convolutions without TF32, products with it where asked.
    torch.backends.cuda.matmul.allow_tf32 = case["tensors"][0]["dtype"] == "tf32"
    torch.backends.cudnn.allow_tf32 = False
    real = case["op"].startswith(("spmv", "adam"))  # sparse tensors and optimizers need real ones
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls its CSR support a beta
        try:
            return rooflab.analyze(_meta(ops, case, real))
        except RooflabError as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            return None


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


def models(truth: Path) -> Iterator[Case]:
    """Every model time in `truth/*.json`: eager, replayed as a graph, compiled (kernels only)."""
    builder = module(truth / "models.py")
    for path in sorted(truth.glob("*.json")):
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or not found.get("models"):
            continue
        machine = machine_of(found, path.stem)
        for each in found["models"]:
            train = each["mode"].startswith("train")
            report = model_report(builder, each["name"], each["dtype"], train)
            for table, mode, ms in _model_times(each):
                settings = {"mode": mode, "cache": "warm", "power": "burst"}
                name = each["name"] + (" train" if train else "")
                run = None if train else functools.partial(_run_model, builder, each["name"])
                yield Case(f"models, {table}, {path.stem}", table, name, report, machine, ms / 1e3, settings, run)


def _run_model(builder: ModuleType, name: str) -> Any:
    made, inputs = builder.build(name, "meta")
    return made.eval()(*inputs)


def _model_times(each: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    if each["mode"].startswith("compiled"):
        yield "compiled", "compiled", each["kernel_sum_ms"]
        return
    for table in ("graph", "eager"):
        if each.get(f"{table}_ms"):
            yield table, table, each[f"{table}_ms"]


@functools.cache
def model_report(builder: ModuleType, name: str, dtype: str, train: bool) -> Report:
    """The model `name` of `truth/models.py` on meta tensors, with a training step where `train`."""
    import torch

    torch.backends.cudnn.allow_tf32 = False
    formats = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}
    made, inputs = builder.build(name, "meta", formats[dtype])
    if train:
        made.train()
        return rooflab.analyze(made, *inputs, backward=True, optimizer="adam", name=name)
    made.eval()
    with torch.no_grad():
        return rooflab.analyze(made, *inputs, name=name)


def machine_of(found: dict[str, Any], stem: str) -> Machine:
    """The machine of a truth file, by the name that its driver printed, else by the file's name."""
    meta = found.get("meta", {})
    names = [meta.get("props", {}).get("name")]
    names += [line.split(",")[0] for line in meta.get("smil", "").splitlines()[1:]]
    return named(*(name for name in names if name), stem)


def named(*names: str) -> Machine:
    """The first machine of the catalogue that one of `names` means."""
    for name in names:
        try:
            return rooflab.machine(name)
        except RooflabError:
            continue
    raise RooflabError(f"no machine in the catalogue is called {' or '.join(names)}")


def gemm(data: Path) -> Iterator[Case]:
    """The shapes of `data/gemm_*.csv`: x (m, k) times w (n, k) transposed; weights not in the cache."""
    for path in sorted(data.glob("gemm_*.csv")):
        for row in _rows(path):
            m, n, k = (int(row[name]) for name in "mnk")
            dtype = {"bfloat16": "bf16", "float16": "fp16"}.get(row["gemm_dtype"], row["gemm_dtype"])
            if dtype not in ("bf16", "fp16", "fp8", "int8"):
                continue
            report = rooflab.op("linear", (m, k), (n, k), dtype=dtype)
            # Thousands of repeats on rotating operands: the clock is the lasting one.
            settings = {"mode": "graph", "cache": "cold", "power": "sustained"}
            yield _table_case(path, "gemm", f"{m}x{n}x{k}", row, report, settings)


def attention(data: Path) -> Iterator[Case]:
    """The shapes of `data/attention_*.csv`: prefill (causal) and decode against a cache of `step` tokens."""
    for path in sorted(data.glob("attention_*.csv")):
        for row in _rows(path):
            batch, new, before = (int(row[name]) for name in ("batch_size", "isl", "step"))
            heads, kv, size = (int(row[name]) for name in ("num_heads", "num_key_value_heads", "head_dim"))
            window = int(row["window_size"]) or None
            keys = (batch, kv, before + new, size)
            report = rooflab.op(
                "attention", (batch, heads, new, size), keys, keys, dtype="bf16", causal=True, window=window
            )
            settings = {"mode": "graph", "cache": "warm", "power": "burst"}
            name = "/".join(row[each] for each in list(row)[2:9])
            yield _table_case(path, row["op_name"], name, row, report, settings)


def nccl(data: Path) -> Iterator[Case]:
    """The messages of `data/nccl_*.csv`: `message_size` counts elements."""
    names = {"alltoall": "all_to_all"}
    for path in sorted(data.glob("nccl_*.csv")):
        for row in _rows(path):
            kind = names.get(row["op_name"], row["op_name"])
            dtype = {"half": "fp16"}.get(row["nccl_dtype"], row["nccl_dtype"])
            ranks = int(row["num_gpus"])
            # The message is what all ranks hold together: of all_gather the result, not one rank's part.
            elements = int(row["message_size"]) // (ranks if kind == "all_gather" else 1)
            report = rooflab.op(kind, (elements,), dtype=dtype, ranks=ranks)
            settings = {"mode": "graph", "cache": "warm", "power": "burst"}
            name = f"{kind} {dtype} {ranks} x {row['message_size']}"
            yield _table_case(path, kind, name, row, report, settings)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@functools.cache
def _device(name: str) -> Machine:
    return named(name)


def _table_case(
    path: Path, kind: str, name: str, row: dict[str, str], report: Report, settings: dict[str, Any]
) -> Case:
    seconds = float(row["latency_ms"]) / 1e3
    return Case(path.stem, kind, name, report, _device(row["device"]), seconds, settings)
