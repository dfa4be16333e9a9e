"""The catalogue of machines: one TOML file a machine in `data/catalog`, found by any of its names."""

from __future__ import annotations

import functools
import json
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rooflab.errors import FileError, RooflabError, UnknownNameError, near_matches, squash
from rooflab.machines.consistency import contradictions
from rooflab.machines.meant import doubtful, first_of
from rooflab.types import toml
from rooflab.types.machine import Machine

DATA = Path(__file__).parent / "data"
_CATALOG = DATA / "catalog"
_AMBIGUOUS = DATA / "ambiguous.toml"
_KINDS = ("system", "gpu", "tpu", "asic", "soc", "cpu")
_LIST_THEM = "(`rooflab machine` lists them all; never another machine's numbers)"


class Entry(NamedTuple):
    """What is known of a catalogue file without reading it whole."""

    stem: str
    name: str
    kind: str
    vendor: str
    year: int
    aliases: tuple[str, ...]
    path: Path

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that means this machine, the file's stem first."""
        return (self.stem, self.name, *self.aliases)


def names() -> tuple[str, ...]:
    """The catalogue's names (file stems), ordered by kind, vendor, year and name."""
    return tuple(entry.stem for entry in entries())


@functools.cache
def entries(folder: Path = _CATALOG) -> tuple[Entry, ...]:
    """An entry for each file of the catalogue, ordered by kind, vendor, year and name.

    Raises:
        FileError: a file without a name or that is not TOML, or a name that two files claim.
    """
    listed = [_entry(path) for path in sorted(folder.glob("*.toml"))]
    _refuse_shared_names(listed)
    return tuple(sorted(listed, key=_rank))


def _rank(entry: Entry) -> tuple[int, str, int, str]:
    kind = _KINDS.index(entry.kind) if entry.kind in _KINDS else len(_KINDS)
    return kind, entry.vendor, entry.year, entry.stem


def find(name_or_path: str | Path) -> Machine:
    """The machine called `name_or_path`, or written in that file.

    A path that ends in .toml or .json, that names a file, or that begins as a path does (`./`, `../`, `/`,
    `~`), is read from disk. Anything else is a name:
    a file stem of the catalogue, the vendor's name, or an alias such as a profiler prints; case and
    punctuation do not count.

    Raises:
        UnknownNameError: no such machine, with near matches; never another machine's numbers.
        RooflabError: a short name that several machines share ("A100"), with the variants.
        FileError: a file that cannot be read or believed.

    >>> find("h200").name
    'NVIDIA H200 SXM 141GB'
    """
    text = str(name_or_path)
    path = Path(name_or_path)
    if path.suffix.lower() in (".toml", ".json") or text.startswith((f".{os.sep}", f"..{os.sep}", os.sep, "~")):
        return read(path)
    if _stem(text) is None and os.path.isfile(path):
        return read(path)
    return _load(_resolve(text))


def named(name: str) -> Machine:
    """The machine that the catalogue calls `name`, which comes out of a file: never a path.

    Raises:
        UnknownNameError, RooflabError: as `find`.
    """
    return _load(_resolve(name))


def read(path: Path) -> Machine:
    """The machine in the file at `path`: JSON where it ends in .json or begins with a brace, else TOML.

    Raises:
        FileError: the file cannot be read, holds no machine, or contradicts itself.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise FileError(f"{path}: no such file; names of the catalogue are listed by `rooflab machine`") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    is_json = path.suffix.lower() == ".json" or (path.suffix.lower() != ".toml" and text.lstrip().startswith("{"))
    machine = _from_json(text, path) if is_json else toml.loads(text, str(path))
    if (doubt := first_of(doubtful(machine))) is not None:
        raise FileError(f"{path}: {doubt}")
    if (fault := first_of(contradictions(machine))) is not None:
        raise FileError(f"{path}: contradicts itself: {fault}")
    return machine


@functools.cache
def _load(path: Path) -> Machine:
    return read(path)


def _from_json(text: str, path: Path) -> Machine:
    try:
        raw = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(raw, dict):
            raise RooflabError(f"got a JSON {type(raw).__name__}, expected an object that describes a machine")
        return Machine.from_dict(raw)
    except json.JSONDecodeError as error:
        raise FileError(f"{path}: not valid JSON: {error}") from None
    except RooflabError as error:
        raise FileError(f"{path}: {error}") from None


def _refuse_constant(constant: str) -> float:
    raise RooflabError(f"got {constant}, expected a finite number; leave out what is unknown")


def _entry(path: Path) -> Entry:
    """The entry for the file at `path`, from the keys before its first table: the rest is not parsed."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8").partition("\n[")[0])
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path}: not valid TOML: {error}") from None
    for key in ("name", "kind"):
        if not isinstance(raw.get(key), str):
            raise FileError(f"{path}: {key}: got {raw.get(key)!r}, expected text, before the first table")
    aliases = tuple(raw.get("aliases", ()))
    return Entry(path.stem, raw["name"], raw["kind"], raw.get("vendor", ""), raw.get("year", 0), aliases, path)


def _refuse_shared_names(listed: Iterable[Entry]) -> None:
    """Refuse a name that two files claim: either answer could be another card's numbers."""
    owner: dict[str, Entry] = {}
    for entry in listed:
        for name in entry.names:
            first = owner.setdefault(squash(name), entry)
            if first is not entry:
                raise FileError(
                    f"{entry.path}: aliases: {name!r} is a name of {first.path.name} too; a name means one machine"
                )


def _stem(name: str) -> Path | None:
    """The catalogue file whose stem is `name`: found without reading any other."""
    path = _CATALOG / f"{name}.toml"
    return path if path.parent == _CATALOG and os.path.isfile(path) else None


def _resolve(name: str) -> Path:
    """The catalogue file that `name` means."""
    direct = _stem(name)
    if direct is not None:
        return direct
    wanted = squash(name)
    for entry in entries():
        if wanted in map(squash, entry.names):
            return entry.path
    _refuse_ambiguous(name)
    # One name a machine, the nearest, so that the near matches are different machines.
    nearest = [(near_matches(name, entry.names, 1) or [entry.name])[0] for entry in entries()]
    raise UnknownNameError("machine", name, nearest, _LIST_THEM)


def _refuse_ambiguous(name: str) -> None:
    """Refuse a short name that several machines share, listing the variants and why they differ."""
    for row in _ambiguous():
        if squash(name) in map(squash, row["names"]):
            variants = ", ".join(row["variants"])
            raise RooflabError(f"{name!r} is more than one machine: {row['why']}; name one of {variants}")


@functools.cache
def _ambiguous() -> tuple[dict[str, Any], ...]:
    """The rows of `data/ambiguous.toml`: `names`, the `variants` (file stems) and `why` it matters."""
    return tuple(tomllib.loads(_AMBIGUOUS.read_text(encoding="utf-8"))["ambiguous"])
