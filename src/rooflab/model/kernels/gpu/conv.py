"""Convolutions on GPUs: a product of matrices whose operand is gathered, with the passes a library adds.

A convolution of x (N, C, P', Q') with w (K, C, R, S) is the product of N·P·Q × C·R·S by C·R·S × K ("implicit
GEMM", Chetlur et al.: "cuDNN", arXiv:1410.0759), so its tiles and waves are those of `matmul`. Four things
differ. The operand is gathered, which costs matrix units some of their speed. With fewer channels than
a load of 16 bytes holds, every tap of every pixel is one load: these bind. Matrix units want channels last:
operands in another layout are transposed by kernels of their own, results too; where that costs more than it
saves, for few channels and taps, ordinary cores do it in place. And a depthwise convolution has no product at
all: a few multiply-adds per element, one by one. A bias is added by a kernel of its own, element by element.
"""

from __future__ import annotations

import math

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.model.kernels.gpu import matmul, stream
from rooflab.types.work import Cost, Op, TensorSpec
from rooflab.work.formulas.conv import multiply_adds
from rooflab.work.formulas.cost_terms import item_bytes

# Matrix units of NVIDIA load 8 halves at a time; cuDNN pads shorter channels to that (`nhwcAddPadding`).
_CHANNELS = 8
# Results across in the smallest tile of cuDNN's kernels on ordinary cores (`implicit_convolve_sgemm`).
_DIRECT_RESULTS = 32
# The most taps times channels for which it takes them: 3 × 3 and 4 × 4 of 3 channels, not 7 × 7 or 16 × 16.
_DIRECT_DEPTH = 64
# cuDNN transposes in tiles of 32 channels: `nchwToNhwcKernel`, `nhwcToNchwKernel`.
_TRANSPOSED = 32

_OWN = (
    "products",
    "fma",
    "taps",
    "few",
    "depthwise",
    "planes",
    "matrix",
    "transposes",
    "transposed_bytes",
    "padded_bytes",
    "direct_fma",
    "bias_elements",
    "bias_bytes",
    "bias_instructions",
)


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """Columns of the product, then `_OWN`; None where shapes do not tell a product.

    products: 1 forward, 1 or 2 backward; taps: 1 where an operand is the tensor itself, else kernel sizes;
    few: 1 with fewer channels than a load holds; depthwise; planes: 1 where x has channels first; matrix:
    1 where matrix units do it; transposes: passes that change layouts, transposed_bytes what they move;
    padded_bytes: what padding channels moves; direct_fma: multiply-adds, with padded results, of doing without
    layouts and padding, 0 where that cannot be; bias_elements, _bytes, _instructions: of adding a bias
    afterwards, the last by element.
    """
    backward = op.kind == "conv_backward"
    if len(inputs) < 2 + backward or not outputs:
        return None
    y, x, w = inputs[:3] if backward else (outputs[0], inputs[0], inputs[1])
    taps = len(tuple(op.attrs.get("kernel") or w.shape[2:]))
    if not taps or len(x.shape) <= taps or len(y.shape) <= taps:
        return None
    fma = multiply_adds(x, w, y, op.attrs)
    if not fma:
        return None
    kernel = math.prod(op.attrs.get("kernel") or w.shape[2:])
    groups = op.attrs.get("groups", 1)
    channels, results = x.shape[-taps - 1] // groups, y.shape[-taps - 1] // groups
    matrix = item_bytes(x) <= 2 or op.attrs.get("compute") == "tf32"
    depthwise = groups > 1 and channels == 1
    few = not depthwise and channels < _CHANNELS
    k = fma / y.elements
    if few and matrix:
        k *= _CHANNELS / channels
    planes = _planes(x, taps)
    pixels = y.elements // (results * groups)
    plain = kernel == 1 and pixels == x.elements // (channels * groups)
    # Matrix units can read planes as they lie where that is a product of whole planes with even sizes.
    as_it_lies = plain and planes and matrix and _plane_bytes(x, taps) % 4 == 0
    if as_it_lies:
        plane = math.prod(x.shape[-taps:])
        # cuDNN has one kernel for planes that start at no multiple of 16 bytes: it loads two elements at a time.
        step = plane if _plane_bytes(x, taps) % 16 == 0 else 2
        product = _product(op, x, (plane, results, k, groups * pixels // plane), step, cost)
    else:
        product = _product(op, x, (pixels, results, max(1, round(k)), groups), 1, cost)
    if product is None:
        return None
    products = 1.0
    if backward:
        products = float(op.attrs.get("input_grad", True)) + float(op.attrs.get("weight_grad", True))
    moved = () if depthwise or as_it_lies or not matrix else [each for each in (x, w, y) if _planes(each, taps)]
    bias = len(inputs) > 2 and not backward and bool(op.attrs.get("bias"))
    return (
        *product,
        products,
        fma,
        1.0 if plain else float(kernel),
        float(few),
        float(depthwise),
        float(planes),
        float(matrix),
        len(moved) * products,
        sum(_transposed(each, taps) for each in moved) * products,
        x.nbytes * (1 + _CHANNELS / channels) * products if few and matrix and not planes else 0.0,
        _direct(pixels, results, fma / y.elements) * groups if few and matrix and planes else 0.0,
        float(y.elements) if bias else 0.0,
        2 * y.nbytes if bias else 0.0,
        # A result's channel is found through its pixel and image, or, channels last, at once.
        stream.programs()["division"] * (3 if _planes(y, taps) else 2),
    )


def _direct(pixels: int, results: int, depth: float) -> float:
    padded = math.ceil(results / _DIRECT_RESULTS) * _DIRECT_RESULTS
    return pixels * padded * depth if depth <= _DIRECT_DEPTH else 0.0


def _product(op: Op, x: TensorSpec, sizes: tuple[int, int, float, int], step: int, cost: Cost) -> Features | None:
    """What `matmul` takes of the product (groups of m × k by k × n) that the convolution is.

    step: elements from one column of the left operand to the next, 1 where its rows lie one after the other.
    """
    m, n, depth, groups = sizes
    k = max(1, round(depth))
    attrs = {name: op.attrs[name] for name in ("compute",) if name in op.attrs}
    product = Op(name=op.name, kind="matmul", attrs={**attrs, "k": k, "fma": m * n * k * groups})
    strides = (m * k, 1, step) if step > 1 else (m * k, k, 1)
    a, b, out = (
        TensorSpec(
            shape=(groups, *shape),
            dtype=x.dtype,
            nbytes=math.prod(shape) * groups * item_bytes(x),
            strides=strides if shape == (m, k) else None,
        )
        for shape in ((m, k), (k, n), (m, n))
    )
    return matmul.MECHANISM.features(product, (a, b), (out,), cost)


def _planes(x: TensorSpec, taps: int) -> bool:
    """Whether channels come before the pixels in memory; one pixel lies the same way in both layouts."""
    channels = x.shape[-taps - 1]
    return channels > 1 and math.prod(x.shape[-taps:]) > 1 and (x.strides is None or x.strides[-taps - 1] != 1)


def _plane_bytes(x: TensorSpec, taps: int) -> float:
    """Bytes from one channel's plane to the next."""
    return math.prod(x.shape[-taps:]) * item_bytes(x)


def _transposed(spec: TensorSpec, taps: int) -> float:
    """Bytes that transposing reads and writes, with channels rounded up to whole tiles."""
    channels = spec.shape[-taps - 1]
    return 2 * spec.nbytes / channels * math.ceil(channels / _TRANSPOSED) * _TRANSPOSED


def time(x: Columns, device: Device) -> KernelTimes:
    """The product (matrix units, vector units or one by one), then the passes around it."""
    c = device.constants
    product = matmul.MECHANISM.time(_columns(x), device)
    launch_s = c("conv.launch_s") * device.factor["overhead"]
    gather = np.where(x["taps"] > 1, c("conv.gather_factor"), 1.0)
    on_matrix_s = product.overhead_s + (product.time_s - product.overhead_s) * gather
    on_matrix_s = np.where(x["few"] > 0, launch_s + np.maximum(on_matrix_s, _loads_s(x, device)), on_matrix_s)
    share = np.where(x["few"] > 0, c("conv.few_share"), c("conv.vector_share"))
    on_vector_s = launch_s + np.maximum(x.flop_floor_s / x["products"] / share, product.memory_s)
    one_by_one_s = launch_s + np.hypot(_taps_s(x, device), product.memory_s)
    main_s = np.where(x["matrix"] > 0, on_matrix_s, on_vector_s)
    main_s = np.where(x["depthwise"] > 0, one_by_one_s, main_s) * x["products"]
    transposing_s, streaming_s, kernels = _around(x, device)
    directly_s = launch_s + x["direct_fma"] / (c("conv.direct_share") * _vector_fma_per_s(device))
    direct = (x["direct_fma"] > 0) & (directly_s < main_s + transposing_s + streaming_s + kernels * launch_s)
    main_s = np.where(direct, directly_s * x["products"], main_s)
    transposing_s, streaming_s, kernels = (
        np.where(direct, 0.0, each) for each in (transposing_s, streaming_s, kernels)
    )
    bias_s, added = _bias(x, device)
    streaming_s, kernels = streaming_s + bias_s, kernels + added
    launches_s = (x["products"] + kernels) * launch_s
    zero = np.zeros_like(main_s)
    body_s = np.maximum(main_s - x["products"] * launch_s, 0.0)
    busy = (product.memory_s < body_s) | (x["depthwise"] > 0)
    return KernelTimes(
        time_s=main_s + transposing_s + streaming_s + kernels * launch_s,
        compute_s=np.where(busy, body_s, product.compute_s),
        near_s=zero + transposing_s,
        cache_s=zero + product.cache_s,
        memory_s=zero + product.memory_s + streaming_s,
        overhead_s=zero + launches_s,
        spread=zero + c("conv.spread"),
        kernels=zero + x["products"] + kernels,
    )


def _columns(x: Columns) -> Columns:
    """The columns of one of the products, as `matmul` takes them."""
    return Columns(
        read_bytes=x.read_bytes,
        write_bytes=x.write_bytes,
        hot_read_bytes=x.hot_read_bytes,
        hot_write_bytes=x.hot_write_bytes,
        footprint_bytes=x.footprint_bytes,
        flop_floor_s=x.flop_floor_s / x["products"],
        matrix_flop=x.matrix_flop / x["products"],
        vector_flop=x.vector_flop,
        special_flop=x.special_flop,
        extra={name: x[name] for name in matmul.MECHANISM.columns},
    )


def _loads_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds of loading both operands of all tiles in pieces of 16 bytes, with few channels."""
    c = device.constants
    rows, across = c("conv.few_rows"), c("conv.few_columns")
    tiles = np.ceil(x["m"] / rows) * np.ceil(x["n"] / across) * x["batch"]
    pieces = np.ceil(tiles / device.units) * (rows + across) * x["k"] / _CHANNELS
    return pieces / (c("conv.loads_per_clock") * device.clock_hz)


def _taps_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds of multiply-adds one by one, each with its index and its load, beside those of its result."""
    c = device.constants
    lanes = device.units * device.clock_hz * c("passes.lanes_per_unit_clock")
    per_result = x["fma"] / x["taps"] * c("conv.planes_result_instructions")
    planes_s = (x["fma"] * c("conv.planes_tap_instructions") + per_result) / lanes
    last_s = x["fma"] / (c("conv.taps_per_clock") * device.units * device.clock_hz)
    return np.where(x["planes"] > 0, planes_s, last_s)


def _vector_fma_per_s(device: Device) -> Number:
    """Theoretical multiply-adds of ordinary cores in fp32, in which they do those of half precision."""
    peak, _ = device.peak("vector", "fp32")
    return peak / 2.0 if peak is not None else 64.0 * device.units * device.clock_hz


def _around(x: Columns, device: Device) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds of transposing; of padding; and how many kernels they are."""
    c = device.constants
    transposing = x["transposed_bytes"] / (c("conv.transposed_bytes_per_clock") * device.units * device.clock_hz)
    streamed = x["padded_bytes"] / (device.memory_bytes_per_s * c("conv.pass_share"))
    return transposing, streamed, x["transposes"] + (x["padded_bytes"] > 0) * x["products"]


def _bias(x: Columns, device: Device) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of adding a bias, an address per element, and how many kernels that is."""
    c = device.constants
    per_element, _, block_s, _, sharpness = c.many("kernel.strided")
    lanes = device.units * device.clock_hz * c("passes.lanes_per_unit_clock")
    issue = x["bias_elements"] * (per_element + x["bias_instructions"]) / lanes
    memory = x["bias_bytes"] / (device.memory_bytes_per_s * c("conv.pass_share"))
    largest = np.maximum(np.maximum(issue, memory), 1e-12)
    both = largest * ((issue / largest) ** sharpness + (memory / largest) ** sharpness) ** (1.0 / sharpness)
    there = x["bias_elements"] > 0
    return np.where(there, both + block_s, 0.0), there * 1.0


MECHANISM = Mechanism(
    "conv", ("gpu",), ("conv", "conv_backward"), (*matmul.MECHANISM.columns, *_OWN), features, time
)
