"""Files as they come from anywhere: whole ones, the same damaged in known ways, and what rooflab makes of them.

Each door takes a file as the command line does. A damaged file is either read (exit 0) or refused in one line
(exit 2); anything else is a finding. `benchmarks/mutations.py` tries many thousands, the tests a few.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import lzma
import random
import re
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rooflab
from rooflab.comparing.sides import COMPARED
from rooflab.errors import RooflabError
from rooflab.machines import catalog

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_EXTREMES = (b"0", b"-1", b"1e308", b"-1e308", b"1e999", b"nan", b"inf", b"9223372036854775807", b"4294967296",
             b"1e-320", b"true", b'""', b"99999999999999999999999", b"null", b"[]", b"{}")  # fmt: skip
_VARINTS = (b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\x00", b"\xff" * 9 + b"\x01")


class Outcome(NamedTuple):
    """What became of a file: "read", "refused", or a finding ("traceback", "warning", "words", "memory").

    Attributes:
        words: of the refusal or the finding.
    """

    what: str
    words: str = ""


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────


def mutated(content: bytes, rng: random.Random, name: str = "") -> bytes:
    """`content` damaged once to three times, each in one of the ways of `DAMAGES`.

    Half of the files whose `name` ends in .onnx or .json are damaged inside: they can still be parsed.
    """
    if name.endswith(".onnx") and rng.random() < 0.5:
        import onnx

        message = onnx.ModelProto()
        message.ParseFromString(content)
        for _ in range(rng.choice((1, 1, 2, 3))):
            _damage_field(message, rng)
        return message.SerializePartialToString()
    if name.endswith(".json") and rng.random() < 0.5:
        value = json.loads(content)
        for _ in range(rng.choice((1, 1, 2, 3))):
            _damage_value(value, rng)
        return json.dumps(value).encode()
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice(DAMAGES)(content, rng)
    return content


def _damage_field(message: Any, rng: random.Random) -> None:
    """One field somewhere in `message` gets another value, is left out, or is there twice."""
    fields: list[tuple[Any, Any, Any]] = []

    def walk(one: Any) -> None:
        for field, value in one.ListFields():
            fields.append((one, field, value))
            if field.type == field.TYPE_MESSAGE:
                for each in value if field.is_repeated else [value]:
                    walk(each)

    walk(message)
    if not fields:
        return
    owner, field, value = rng.choice(fields)
    if rng.random() < 0.2:
        owner.ClearField(field.name)
    elif field.type == field.TYPE_MESSAGE:
        if field.is_repeated:
            value.add().CopyFrom(rng.choice(value))
            value.pop(rng.randrange(len(value))) if rng.random() < 0.5 else None
    else:
        others = [each for _, other, held in fields for each in _values(other, held) if other.type == field.type]
        new = rng.choice(others if rng.random() < 0.5 else _EXTREME_FIELDS.get(field.type, others))
        if not field.is_repeated:
            setattr(owner, field.name, new)
        elif rng.random() < 0.3:
            value.append(new)
        elif len(value):
            value[rng.randrange(len(value))] = new


def _damage_value(value: Any, rng: random.Random) -> None:
    """One member of an object or a list somewhere in `value` becomes another, is left out, or is there twice."""
    places: list[tuple[Any, Any]] = []

    def walk(one: Any) -> None:
        for key, each in one.items() if isinstance(one, dict) else enumerate(one):
            places.append((one, key))
            if isinstance(each, (dict, list)):
                walk(each)

    walk(value)
    if not places:
        return
    owner, key = rng.choice(places)
    other_owner, other_key = rng.choice(places)
    way = rng.random()
    if way < 0.2:
        del owner[key]
    elif way < 0.4 and isinstance(owner, list):
        owner.insert(key, json.loads(json.dumps(owner[key])))
    elif way < 0.7:
        alike = [one[at] for one, at in places if type(one[at]) is type(owner[key])]
        owner[key] = json.loads(json.dumps(rng.choice(alike)))
    else:
        other = other_owner[other_key]
        owner[key] = rng.choice(
            (0, -1, 1e308, 1e-320, 1 << 62, "", "x", None, [], {}, True, json.loads(json.dumps(other)))
        )


def _values(field: Any, held: Any) -> list[Any]:
    return [] if field.type == field.TYPE_MESSAGE else list(held) if field.is_repeated else [held]


# By protobuf's codes of field types: int64, int32, enum, float, string, bytes.
_EXTREME_FIELDS: dict[int, tuple[Any, ...]] = {
    3: (0, -1, 1, 7, 1 << 31, 1 << 62, -(1 << 63)),
    5: (0, -1, 1, 3, 99, (1 << 31) - 1),
    14: (0, 1, 2, 6, 7),
    2: (0.0, -1.0, float("nan"), float("inf"), 3e38),
    9: ("", "x", "x" * 5000, "\n", "Loop", "If", "ai.onnx.ml"),
    12: (b"", b"\x00", b"x" * 5000, b"\xff"),
}


def _place(content: bytes, rng: random.Random) -> tuple[int, int]:
    """Begin and end of a piece of at most 64 bytes, or of a larger one now and then."""
    begin = rng.randrange(len(content) + 1)
    return begin, min(len(content), begin + rng.choice((1, 4, 16, 64, len(content) // 3 + 1)))


def _flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 2, 8)) if content else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwritten(content: bytes, rng: random.Random) -> bytes:
    begin, end = _place(content, rng)
    return content[:begin] + rng.randbytes(end - begin) + content[end:]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _without(content: bytes, rng: random.Random) -> bytes:
    begin, end = _place(content, rng)
    return content[:begin] + content[end:]


def _twice(content: bytes, rng: random.Random) -> bytes:
    begin, end = _place(content, rng)
    return content[:end] + content[begin:end] * rng.choice((1, 1, 3)) + content[end:]


def _swapped(content: bytes, rng: random.Random) -> bytes:
    (a, b), (c, d) = sorted((_place(content, rng), _place(content, rng)))
    b = min(b, c)
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _other_number(content: bytes, rng: random.Random) -> bytes:
    """A number of a text becomes an extreme one, or another number of it."""
    numbers = list(_NUMBER.finditer(content))
    if not numbers:
        return _flipped(content, rng)
    chosen = rng.choice(numbers)
    other = rng.choice((rng.choice(_EXTREMES), rng.choice(numbers).group()))
    return content[: chosen.start()] + other + content[chosen.end() :]


def _other_word(content: bytes, rng: random.Random) -> bytes:
    """A word of a text becomes another of it."""
    words = list(re.finditer(rb"\w+", content))
    if len(words) < 2:
        return _flipped(content, rng)
    chosen, other = rng.choice(words), rng.choice(words)
    return content[: chosen.start()] + other.group() + content[chosen.end() :]


def _other_size(content: bytes, rng: random.Random) -> bytes:
    """A byte, such as a length or a dimension of a binary file, becomes a number of several bytes."""
    at = rng.randrange(len(content) + 1)
    number = rng.choice((*_VARINTS, struct.pack("<q", rng.choice((-1, 1 << 40, 1 << 62)))))
    return content[:at] + number + content[at + 1 :]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_flipped, _overwritten, _cut, _without, _twice, _swapped, _other_number, _other_word, _other_size),
)


# ── whole files ──────────────────────────────────────────────────────────────────────────────────────────


def machine_files() -> dict[str, bytes]:
    """Machine files of the catalogue, one of each eighth, and one as JSON."""
    names = catalog.names()[::8]
    files = {f"{name}.toml": (catalog.DATA / "catalog" / f"{name}.toml").read_bytes() for name in names}
    return files | {"a10.json": json.dumps(rooflab.machine("a10").to_dict()).encode()}


def trace_files() -> dict[str, bytes]:
    """Traces of every format, some packed."""
    rng = random.Random(5)
    at = [rng.randrange(1 << 30) * 4 for _ in range(60)]
    texts = {
        "din": "".join(f"{one % 3} {one:x}\n" for one in at),
        "xdin": "".join(f"{'rwi'[one % 3]} {one:x} {1 << one % 4}\n" for one in at),
        "lackey": "==1== Lackey\n" + "".join(f" {'LSM'[one % 3]} {one:x},8\n" for one in at),
        "drmemtrace": "".join(
            f"  {one % 97}  {one % 89}:  1234 read  4 byte(s) @ 0x{one:016x} by PC 0x{one:x}\n" for one in at
        ),
    }
    files = {f"{name}.trace": text.encode() for name, text in texts.items()}
    records = [struct.pack("<Q2B2B4B2Q4Q", 4096 + n, 0, 0, 1, 2, 1, 2, 3, 4, one, 0, one, 0, 0, 0)
               for n, one in enumerate(at)]  # fmt: skip
    files["champsim.trace"] = b"".join(records)
    files["din.gz"] = gzip.compress(files["din.trace"], mtime=0)
    files["champsim.xz"] = lzma.compress(files["champsim.trace"])
    return files


def onnx_files() -> dict[str, bytes]:
    """Small models: a perceptron, a convolution, shapes worked out by nodes, a loop, an attention, a choice."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def model(nodes, inputs, weights=()):
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        made = [numpy_helper.from_array(np.asarray(one), name) for name, one in dict(weights).items()]
        outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph(nodes, "g", given, outs, made)
        imports = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()

    node, ones = helper.make_node, lambda *shape: np.ones(shape, np.float32)
    inner = helper.make_graph(
        [node("Relu", ["v"], ["w"]), node("Identity", ["c"], ["d"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [4, 8]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 8]),
        ],
    )
    shapes = [
        *(node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"], axis=0)),
        *(node("Concat", ["n", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["r"])),
        *(node("Transpose", ["r"], ["q"], perm=[0, 2, 1]), node("MatMul", ["r", "q"], ["m"])),
        *(node("Softmax", ["m"], ["p"]), node("Slice", ["p", "zero", "one", "one"], ["y"])),
    ]
    del onnx
    return {
        "perceptron.onnx": model(
            [node("Gemm", ["x", "w", "b"], ["h"], transB=1), node("Relu", ["h"], ["y"])],
            {"x": ["batch", 82]},
            {"w": ones(16, 82), "b": ones(16)},
        ),
        "convolution.onnx": model(
            [
                node("Conv", ["x", "w"], ["h"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                node("MaxPool", ["h"], ["k"], kernel_shape=[2, 2], strides=[2, 2]),
                node("GlobalAveragePool", ["k"], ["y"]),
            ],
            {"x": [1, 3, 16, 16]},
            {"w": ones(4, 3, 3, 3)},
        ),
        "shapes.onnx": model(
            shapes,
            {"x": [2, 24]},
            {"zero": np.array([0]), "one": np.array([1]), "rest": np.array([4, 6])},
        ),
        "loop.onnx": model(
            [node("Loop", ["trips", "go", "x"], ["y"], body=inner)],
            {"x": [4, 8]},
            {"trips": np.array(3), "go": np.array(True)},
        ),
        "choice.onnx": model(
            [
                node("TopK", ["x", "k"], ["v", "i"], axis=-1),
                node("Expand", ["v", "wide"], ["e"]),
                node("Tile", ["e", "times"], ["f"]),
                node("Resize", ["f", "", "scales"], ["y"], mode="nearest"),
            ],
            {"x": [4, 8]},
            {
                "k": np.array([2]),
                "wide": np.array([4, 2]),
                "times": np.array([2, 3]),
                "scales": np.array([2.0, 2.0], np.float32),
            },
        ),
    }


def json_files() -> dict[str, bytes]:
    """Saved results of the types that are quick to make."""
    lab = rooflab.lab
    system = lab.System(core=lab.ComputeCore(peak_flop_per_s=1e9), memory=lab.Memory(bandwidth_bytes_per_s=1e9))
    report = rooflab.op("attention", (2, 4, 64, 16), machine="h200")
    made = {
        "Machine": rooflab.machine("a10"),
        "Report": report,
        "Variants": rooflab.variants(report, ["h200", "l4"]),
        "Transfer": rooflab.transfer("1 GB", ["network"], rates={"network": "1 GB/s"}),
        "Sweep": lab.sweep(lab.StreamingKernel(nbytes=1e6), system, "intensity", (0.5, 1.0, 2.0)),
    }
    return {f"{name}.json": json.dumps(result.to_dict()).encode() for name, result in made.items()}


# ── doors ────────────────────────────────────────────────────────────────────────────────────────────────


def _command(*words: str) -> None:
    from rooflab.cli import cli

    cli.main(list(words), prog_name="rooflab", standalone_mode=False)


def _saved(path: Path) -> None:
    _command("show", str(path))
    _command("show", str(path), "--quiet", "--output", str(path.with_suffix(".html")))
    if json.loads(path.read_bytes())["type"] in COMPARED:
        _command("compare", str(path), str(path))


def profile_files() -> dict[str, bytes]:
    """The samples of every format of profiles, unpacked; long ones from the beginning."""
    samples = Path(__file__).parents[1] / "samples"
    paths = [
        *sorted((samples / "h200").glob("ncu_*")),
        samples / "h200" / "trace_ops.json.gz",
        *sorted((samples / "profiles").glob("*/*")),
    ]
    files = {}
    for path in paths:
        content = path.read_bytes()
        whole = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        # Only what is one whole value can be changed inside.
        end = "" if _is_json(whole[:_PROFILE_BYTES]) else ".text"
        files[f"{path.parent.name}-{path.name}".removesuffix(".gz") + end] = whole[:_PROFILE_BYTES]
    return files


_PROFILE_BYTES = 200_000


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


DOORS: dict[str, Callable[[Path], None]] = {
    "onnx": lambda path: rooflab.analyze(path).show(),  # the command says any error of a target in one line
    "machine": lambda path: _command("machine", str(path)),
    "json": _saved,
    "profile": lambda path: _command("load", str(path)),
    "trace": lambda path: _command("simulate", str(path), "--level", "4KiB/4", "--level", "64KiB/8"),
}
WHOLE: dict[str, Callable[[], dict[str, bytes]]] = {
    "onnx": onnx_files,
    "machine": machine_files,
    "json": json_files,
    "profile": profile_files,
    "trace": trace_files,
}


def outcome(door: str, path: Path) -> Outcome:
    """What becomes of the file at `path` at `door`; what it prints is dropped."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        try:
            DOORS[door](path)
        except RooflabError as error:
            words = str(error)
            plain = words and "\n" not in words and len(words) < 1000 and words.isprintable()
            return Outcome("refused" if plain else "words", words)
        except MemoryError as error:
            return Outcome("memory", str(error))
        except Warning as error:
            return Outcome("warning", _raised(error))
        except Exception as error:  # noqa: BLE001  any other is what is looked for
            return Outcome("traceback", _raised(error))
    return Outcome("read")


def _raised(error: BaseException) -> str:
    """The error and where in rooflab it came out."""
    where, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/rooflab/" in name:
            where = f"{name.partition('/rooflab/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    first = (str(error).splitlines() or [""])[0][:160]
    return f"{where} {type(error).__name__}: {first}"
