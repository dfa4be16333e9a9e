"""A `Machine` as TOML: the form of the catalogue's files and of what a measurement writes.

The keys are the fields of `rooflab.types.machine`. Two conveniences make a file pleasant to write by hand:

- a `[sources]` table names each source once, and every `source = "key"` refers to it;
- a quantity may be a string with its unit ("3.35 TB/s", "1830 MHz", "141 GB"); `per_s` of a rate then
  follows from the unit.

A number without a source, a quantity without a unit and a bare magnitude (3350 for 3350 GB/s) are refused.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import tomllib
import typing
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import FileError, RooflabError, near_matches
from rooflab.types.machine import SCHEMA, Level, Machine, Rate, Source, is_main_memory
from rooflab.units import KIB, MEGA, MIB, parse, parse_any

# A suffix of a field's name says its dimension (design rule 1); the longest suffix is asked first.
_DIMENSIONS = (
    ("_bytes_per_s", "byte/s"),
    ("transfers_per_s", "transfer/s"),
    ("_bytes", "byte"),
    ("_hz", "hertz"),
    ("_s", "s"),
    ("_w", "watt"),
)
_PER_S = {
    "byte/s": "byte",
    "flop/s": "flop",
    "op/s": "op",
    "inst/s": "inst",
    "transaction/s": "transaction",
    "hertz": "cycle",
}
_MAY_BE_ZERO = frozenset(
    {
        *("spread", "latency_spread", "loaded_latency_spread", "flop", "first", "x", "best", "median"),
        *("team_from", "error", "cache_bytes", "terms"),
        *("latency", "throughput", "missed_branch", "queue"),
    }
)
_LONGEST_LATENCY_S = 10.0
_SLOWEST_RANDOM_BYTES_PER_S = 1e3  # a disk at 10 random accesses a second still reads 40 kB/s
_NUMBER_ARRAY = re.compile(r"\[\n((?: +[-+0-9.e]+,\n)+)\]")
_LINE = 110


class _File(NamedTuple):
    """The file being read: its name, for errors, and its named sources."""

    where: str
    sources: dict[str, Source]

    def fault(self, at: str, text: str) -> FileError:
        return FileError(f"{self.where}: {at}: {text}" if at else f"{self.where}: {text}")


def loads(text: str, where: str) -> Machine:
    """The machine written in `text`.

    Args:
        text: TOML.
        where: the file's path, which every error begins with.

    Raises:
        FileError: invalid TOML, an unknown key, a newer schema, a number without a source, a quantity
            without a unit or that is not finite and positive, or a bare magnitude.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{where}: not valid TOML: {error}") from None
    schema = raw.get("schema", SCHEMA)
    if isinstance(schema, int) and schema > SCHEMA:
        raise FileError(f"{where}: schema: got {schema}, newer than this rooflab reads ({SCHEMA}); update rooflab")
    file = _File(where, _named_sources(raw.pop("sources", {}), where))
    return _struct(Machine, raw, "", file)


def dumps(machine: Machine) -> str:
    """The TOML form of `machine`; `loads` gives an equal machine back.

    Equal sources are written once, in `[sources]`; what is unknown (None) is left out.
    """
    import tomli_w

    keys: dict[Source, str] = {}
    body = _plain(machine, keys)
    scalars = {key: value for key, value in body.items() if not _is_table(value)}
    tables = {key: value for key, value in body.items() if _is_table(value)}
    sources = {key: _plain(source, {}) for source, key in keys.items()}
    return _NUMBER_ARRAY.sub(_flow, tomli_w.dumps({**scalars, "sources": sources, **tables}, indent=2))


def _named_sources(raw: object, where: str) -> dict[str, Source]:
    """The `[sources]` table: one `Source` by key."""
    file = _File(where, {})
    if not isinstance(raw, dict):
        raise file.fault("sources", f"got {raw!r}, expected a table of sources by key")
    return {key: _struct(Source, value, f"sources.{key}", file) for key, value in raw.items()}


def _struct(cls: type[Any], raw: object, at: str, file: _File) -> Any:
    """The `cls` that the table `raw` at the field path `at` holds."""
    if not isinstance(raw, dict):
        raise file.fault(at, f"got {raw!r}, expected a table")
    fields = _fields(cls)
    for key in raw:
        if key not in fields:
            near = near_matches(key, fields)
            hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(fields)}"
            raise file.fault(_join(at, key), f"unknown key; {hint}")
    values = {key: _value(fields[key].type, value, _join(at, key), file) for key, value in raw.items()}
    if cls is Rate:
        values.update(_rate_quantities(raw, at, file))
    for name, field in fields.items():
        if field.required and name not in values:
            raise file.fault(at, _missing(name))
    built = cls(**values)
    _refuse_bare_magnitudes(built, raw, at, file)
    return built


@functools.cache
def _fields(cls: type[Any]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of `cls` by name; its annotations are evaluated once."""
    return {field.name: field for field in msgspec.structs.fields(cls)}


def _missing(name: str) -> str:
    if name == "source":
        return 'no source; every number needs one: write source = "key" and the key under [sources]'
    return f"no {name}; it is required"


def _value(hint: Any, raw: Any, at: str, file: _File) -> Any:
    """`raw` as the type `hint` of the field at `at`: nested tables, sources by key, units, numbers."""
    name = at.rpartition(".")[2]
    nested = _struct_within(hint)
    if nested is Source:
        return _source(raw, at, file)
    if nested is not None and not _is_tuple(hint):
        return _struct(nested, raw, at, file)
    if nested is not None:
        if not isinstance(raw, list):
            raise file.fault(at, f"got {raw!r}, expected an array of tables ([[{at}]])")
        return tuple(_struct(nested, item, f"{at}[{index}]", file) for index, item in enumerate(raw))
    if isinstance(raw, datetime.date):
        raw = raw.isoformat()
    if isinstance(raw, str) and _is_number(hint):
        raw = _quantity(raw, name, at, file)
        if int in typing.get_args(hint) and raw == int(raw):
            raw = int(raw)
    try:
        value = msgspec.convert(raw, hint)
    except msgspec.ValidationError as error:
        raise file.fault(at, str(error).replace("`", "'")) from None
    for number in _numbers(value):
        if not math.isfinite(number):
            raise file.fault(at, f"got {number}, expected a finite number; leave out what is unknown")
        if _is_number(hint) and (number < 0 or (number == 0 and name not in _MAY_BE_ZERO)):
            raise file.fault(at, f"got {number:g}, expected a positive number; leave out what is unknown")
    return value


def _source(raw: object, at: str, file: _File) -> Source:
    if isinstance(raw, dict):
        return _struct(Source, raw, at, file)
    if not isinstance(raw, str):
        raise file.fault(at, f"got {raw!r}, expected the key of a source in [sources]")
    if raw not in file.sources:
        near = near_matches(raw, file.sources)
        hint = f"did you mean {', '.join(near)}?" if near else f"known are {', '.join(file.sources) or 'none'}"
        raise file.fault(at, f"no source {raw!r} in [sources]; {hint}")
    return file.sources[raw]


def _quantity(text: str, name: str, at: str, file: _File) -> float:
    """The number in `text`, in the base unit that the field's name ends in."""
    dimension = next((dimension for suffix, dimension in _DIMENSIONS if name.endswith(suffix)), None)
    try:
        if dimension is not None:
            return parse(text, dimension)
        if name in ("value", "median", "bytes", "flop"):
            return parse_any(text)[0]
    except RooflabError as error:
        raise file.fault(at, str(error)) from None
    raise file.fault(at, f"got the text {text!r}, expected a number")


def _rate_quantities(raw: dict[str, Any], at: str, file: _File) -> dict[str, str]:
    """`per_s` of a rate whose value is a string with a unit, checked against the `per_s` that is given."""
    for name in ("value", "median"):
        if isinstance(raw.get(name), str):
            dimension = parse_any(raw[name])[1]
            per_s = _PER_S.get(dimension)
            if per_s is None or raw.get("per_s", per_s) != per_s:
                expected = f"{raw['per_s']} per second" if "per_s" in raw else f"one of {', '.join(_PER_S)}"
                raise file.fault(_join(at, name), f"got {raw[name]!r}, in {dimension}; expected {expected}")
            return {"per_s": per_s}
    if "value" in raw and "per_s" not in raw:
        problem = f"got {raw['value']!r}, which has no unit: write it with one ('3.35 TB/s'), or add per_s"
        raise file.fault(_join(at, "value"), problem)
    return {}


def _refuse_bare_magnitudes(built: Any, raw: dict[str, Any], at: str, file: _File) -> None:
    """Refuse a number that is too small (or a latency too long) to be in base units.

    Only numbers are looked at: a string states its unit, so it is believed.
    """
    floors: dict[str, tuple[float, str]] = {
        "clock_hz": (MEGA, "1830 MHz"),
        "transfers_per_s": (MEGA, "6.4 GT/s"),
        "each_way_bytes_per_s": (MEGA, "64 GB/s"),
    }
    if isinstance(built, Rate) and built.per_s != "transaction":
        example = {"byte": "3350 GB/s", "cycle": "1830 MHz", "op": "1979 TOP/s"}.get(built.per_s, "989 TFLOP/s")
        random = built.per_s == "byte" and built.what.startswith("random")
        floors["value"] = (_SLOWEST_RANDOM_BYTES_PER_S if random else MEGA, example)
    if isinstance(built, Level) and built.name != "registers":
        floors["capacity_bytes"] = (MIB, "80 GB") if is_main_memory(built) else (KIB, "32 KiB")
    for name, value in raw.items():
        if not isinstance(value, int | float):
            continue
        floor, example = floors.get(name, (0.0, ""))
        if name in ("latency_s", "loaded_latency_s", "dispatch_s", "launch_s") and value > _LONGEST_LATENCY_S:
            floor, example = math.inf, "90 ns"
        if value < floor:
            raise file.fault(
                _join(at, name),
                f"got {value:g}, which looks like a bare magnitude: write {example!r} or base units",
            )


def _plain(item: Any, keys: dict[Source, str]) -> dict[str, Any]:
    """The fields of `item` as TOML holds them, its sources replaced by keys that `keys` collects."""
    plain: dict[str, Any] = {}
    for field in _fields(type(item)).values():
        name, value = field.name, getattr(item, field.name)
        if value is None or (value in ((), {}) and not field.required):
            continue
        if isinstance(value, Source):
            plain[name] = _key(value, keys)
        elif isinstance(value, msgspec.Struct):
            plain[name] = _plain(value, keys)
        elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            plain[name] = [_plain(part, keys) for part in value]
        else:
            plain[name] = list(value) if isinstance(value, tuple) else value
    return plain


def _key(source: Source, keys: dict[Source, str]) -> str:
    """The key of `source`: its kind, numbered from the second of that kind on."""
    if source not in keys:
        count = sum(other.kind == source.kind for other in keys)
        keys[source] = f"{source.kind}-{count + 1}" if count else source.kind
    return keys[source]


def _flow(match: re.Match[str]) -> str:
    """An array of numbers in lines of `_LINE` characters instead of one number a line."""
    lines = [" "]
    for number in match[1].split():
        if len(lines[-1]) + 1 + len(number) > _LINE:
            lines.append(" ")
        lines[-1] += f" {number}"
    return "[\n" + "\n".join(lines) + "\n]"


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _is_number(hint: Any) -> bool:
    """Whether a field of type `hint` holds a number or a tuple of them (and not free-form values)."""
    return {float, int} & {hint, *typing.get_args(hint)} != set()


def _is_tuple(hint: Any) -> bool:
    """Whether a field of type `hint` holds several."""
    return any(typing.get_origin(part) is tuple for part in (hint, *typing.get_args(hint)))


def _struct_within(hint: Any) -> type[Any] | None:
    """The struct that `hint` is, or is a tuple or an optional of."""
    for part in (hint, *typing.get_args(hint)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            return part
    return None


def _numbers(value: Any) -> list[float]:
    """The numbers in a field's value; those of a dictionary and of a tuple are looked into."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
    return [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
