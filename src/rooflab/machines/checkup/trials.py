"""A library tried by a tiny real use, in a process of its own: `python trials.py NAME` prints one line of JSON.

It imports nothing of rooflab, so that it runs where rooflab itself does not.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

MARK = "rooflab-trial: "
# What one line of JSON holds: what was tried and came out, in words, and more by names.
Outcome = tuple[str, dict[str, Any]]


def numpy() -> Outcome:
    """A product of matrices; which BLAS made it, where threadpoolctl is there to tell."""
    import numpy as np

    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7
    _expect(bool((a @ np.eye(64, dtype=np.float32) == a).all()), "its product of matrices is wrong")
    try:
        import threadpoolctl
    except ImportError:
        return "a product of matrices", {"blas": None}
    pools = [each for each in threadpoolctl.threadpool_info() if each.get("user_api") == "blas"]
    if not pools:
        return "a product of matrices; its BLAS is not told", {"blas": None}
    one = pools[0]
    kernel, threads = one.get("architecture"), one.get("num_threads")
    named = f"{one.get('internal_api')} {one.get('version') or ''}".strip()
    told = {"blas": named, "blas_kernel": kernel, "blas_threads": threads}
    return f"a product by {named}, kernel {kernel or 'not told'}, {threads} threads", told


def numba() -> Outcome:
    """A loop compiled and run."""
    from numba import njit

    @njit
    def total(n: int) -> int:
        found = 0
        for i in range(n):
            found += i
        return found

    _expect(total(5) == 10, "a compiled loop counts wrong")
    return "a loop compiled", {}


def vl_convert() -> Outcome:
    """A picture drawn."""
    import altair
    import vl_convert

    wanted = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    brought = vl_convert.get_vegalite_versions()
    spec = {
        "data": {"values": [{"x": 1}]},
        "mark": "point",
        "encoding": {"x": {"field": "x", "type": "quantitative"}},
    }
    svg = vl_convert.vegalite_to_svg(spec, vl_version=wanted if wanted in brought else brought[-1])
    _expect("<svg" in svg, "no picture came out")
    return "a picture drawn", {"vega_lite": wanted, "brought": wanted in brought}


def core() -> Outcome:
    """The small libraries of the core, imported."""
    names = ("msgspec", "click", "rich", "jinja2", "psutil", "tomli_w")
    for name in names:
        importlib.import_module(name)
    return ", ".join(names), {}


def torch() -> Outcome:
    """A product of matrices on the CPU, and on the first GPU that torch sees."""
    import torch

    a = torch.ones(32, 32)
    _expect(float((a @ a)[0, 0]) == 32, "its product of matrices is wrong")
    cuda, rocm = torch.version.cuda, torch.version.hip
    build = f"CUDA {cuda}" if cuda else f"ROCm {rocm}" if rocm else None
    told: dict[str, Any] = {"build": build or "CPU", "threads": torch.get_num_threads(), "gpus": 0}
    said = f"a product on the CPU ({torch.get_num_threads()} threads), built for {told['build']}"
    if build:
        try:
            told["gpus"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if told["gpus"]:
                on_gpu = torch.ones(32, 32, device="cuda")
                _expect(float((on_gpu @ on_gpu)[0, 0]) == 32, "its product on the GPU is wrong")
                said += f", and on {torch.cuda.get_device_name(0)}"
        except RuntimeError as error:
            told["gpu_error"] = str(error)
            said += f"; on the GPU: {error}"
    return said, told


def jax() -> Outcome:
    """A function compiled by `jit`, and which devices there are."""
    import jax
    import jax.numpy as jnp

    made = jax.jit(lambda x: x @ x)(jnp.ones((8, 8)))
    _expect(float(made[0, 0]) == 8, "its product of matrices is wrong")
    kinds = sorted({f"{each.platform} ({each.device_kind})" for each in jax.devices()})
    return f"a function compiled for {', '.join(kinds)}", {
        "platform": jax.default_backend(),
        "devices": len(jax.devices()),
    }


def onnx() -> Outcome:
    """A model of one node made, checked, written and read."""
    import onnx
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    node = helper.make_node("Relu", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "one", value[:1], value[1:]))
    onnx.checker.check_model(model)
    read = onnx.load_model_from_string(model.SerializeToString())
    _expect(read.graph.node[0].op_type == "Relu", "a model is read wrong")
    return "a model written and read", {}


def tinygrad() -> Outcome:
    """A kernel lowered for no device, as capturing does, then one run on the device tinygrad chooses."""
    from tinygrad.device import Device
    from tinygrad.tensor import Tensor

    (Tensor.empty(4, 4, device="NULL") @ Tensor.empty(4, 4, device="NULL")).realize()
    told: dict[str, Any] = {"device": Device.DEFAULT, "run_error": None}
    try:
        _expect((Tensor.ones(4).contiguous() + 1).tolist() == [2.0] * 4, "a sum is wrong")
    except Exception as error:  # noqa: BLE001 — a compiler or driver that is not there, each device's in its own way
        told["run_error"] = f"{type(error).__name__}: {error}"
        return f"a kernel lowered, but none runs on {Device.DEFAULT}: {told['run_error']}", told
    return f"a kernel run on {Device.DEFAULT}", told


def pyarrow() -> Outcome:
    """A table written as Parquet and read."""
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), file, compression="zstd")
    file.seek(0)
    _expect(pyarrow.parquet.read_table(file).num_rows == 2, "a table is read wrong")
    return "a table written and read", {}


def zstandard() -> Outcome:
    """A text packed and unpacked."""
    import zstandard  # pyright: ignore[reportMissingImports]

    packed = zstandard.ZstdCompressor().compress(b"rooflab")
    _expect(zstandard.ZstdDecompressor().decompress(packed) == b"rooflab", "a text comes back wrong")
    return "a text packed and unpacked", {}


def pynvml() -> Outcome:
    """NVIDIA's library loaded and asked for the number of GPUs."""
    import pynvml  # pyright: ignore[reportMissingImports]

    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    pynvml.nvmlShutdown()
    return f"{count} GPUs seen", {"gpus": count}


def imported(name: str) -> Outcome:
    """The module called `name`, imported."""
    importlib.import_module(name)
    return "imported", {}


TRIALS: dict[str, Callable[[], Outcome]] = {
    each.__name__: each
    for each in (numpy, numba, vl_convert, core, torch, jax, onnx, tinygrad, pyarrow, zstandard, pynvml)
}


def _expect(true: bool, otherwise: str) -> None:
    if not true:
        raise RuntimeError(otherwise)


def main(name: str) -> int:
    """Try the library called `name` and print the outcome; 0 where it works, 1 where it does not."""
    try:
        said, told = TRIALS[name]() if name in TRIALS else imported(name)
        outcome = {"works": True, "said": said, "told": told}
    except (Exception, SystemExit) as error:  # noqa: BLE001 — whatever a library does when it is broken
        outcome = {"works": False, "said": f"{type(error).__name__}: {error}", "told": {}}
    sys.stdout.write(f"\n{MARK}{json.dumps(outcome)}\n")
    return 0 if outcome["works"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
