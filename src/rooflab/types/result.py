"""What every result can do: be shown, be saved, be a notebook's cell, become plain data and be read back."""

from __future__ import annotations

import sys
from importlib import import_module
from os import PathLike
from types import ModuleType
from typing import Annotated, Any, ClassVar, Self

import msgspec

from rooflab.errors import RooflabError, UnknownNameError

# What something is divided by: nought, which only a hand can have written, is refused when a file is read.
Positive = Annotated[float, msgspec.Meta(gt=0)]

# Every type of result, and the module that it lives in: what `load` knows by the "type" of a JSON document.
RESULTS = {
    "Machine": "rooflab.types.machine",
    "Report": "rooflab.types.report",
    "Variants": "rooflab.types.variants",
    "LoopReport": "rooflab.types.loop",
    "TileSweep": "rooflab.types.tile_sweep",
    "Simulation": "rooflab.types.simulation",
    "MissCurve": "rooflab.types.simulation",
    "CoreSimulation": "rooflab.types.core_simulation",
    "Transfer": "rooflab.types.transfer",
    "Calibration": "rooflab.types.calibration",
    "Sweep": "rooflab.types.lab",
    "Profile": "rooflab.types.profile",
    "Profiles": "rooflab.types.profiles",
    "Comparison": "rooflab.types.comparison",
    "Run": "rooflab.types.run",
    "Hotspots": "rooflab.types.hotspots",
    "Checkup": "rooflab.types.checkup",
    "TimedCall": "rooflab.types.timed_call",
    "Fleet": "rooflab.types.fleet",
    "Serving": "rooflab.types.serving",
    "ServingPlan": "rooflab.types.serving_plan",
}


class Result:
    """The base of every result, a frozen struct with a field `schema`: the version of its form.

    Attributes:
        NEWEST: the newest version that is read.
        WHAT: the result in errors: "not a machine: …".
        DERIVED: keys of its file that follow from the others, for programs that read it.
        LATE: types of its fields, each with its module, that are not imported with it: what most results of the
            type do without.
    """

    __slots__ = ()
    NEWEST: ClassVar[int] = 1
    WHAT: ClassVar[str] = "result"
    DERIVED: ClassVar[tuple[str, ...]] = ()
    LATE: ClassVar[dict[str, str]] = {}

    def show(self) -> None:
        """Print this result to the terminal."""
        _views().show(self)

    def save(self, *paths: str | PathLike[str], style: str = "screen", scale: float | None = None) -> None:
        """Write this result to each path, in the format that its suffix names.

        Every result has .json, which `rooflab.load` reads back, and .html, one page that needs no network;
        most have .csv, .svg, .png and .pdf too. Each file appears whole or not at all.

        Args:
            paths: of the files.
            style: of .svg, .png and .pdf: "screen", "dark", "paper" (3.5 inches wide, type of 7 points and more,
                a PNG of 300 dpi) or "paper-wide" (7 inches).
            scale: pixels of a PNG for one of the chart's; 2 for a screen.

        Raises:
            UnknownNameError: no such style; nothing has been written then.
            FileError: an unknown suffix, or a path that cannot be written; nothing has been written then.
            RooflabError: no such picture of this result; the other files are written.
        """
        _views().save(self, *paths, style=style, scale=scale)

    def to_arrow(self) -> Any:
        """Its rows as a `pyarrow.Table`, as the CSV file has them: base units in the names, null where unknown.

        Raises:
            MissingExtraError: pyarrow is not installed: `pip install 'rooflab[arrow]'`.
            RooflabError: a result without rows.
        """
        return _views().arrow(self)

    def to_pandas(self) -> Any:
        """Its rows as a `pandas.DataFrame`, through Arrow; errors as `to_arrow`, and where pandas is missing."""
        return _views().pandas(self)

    def to_polars(self) -> Any:
        """Its rows as a `polars.DataFrame`, through Arrow; errors as `to_arrow`, and where polars is missing."""
        return _views().polars(self)

    def _repr_html_(self) -> str:
        """What a notebook shows of this result: its page, in a frame."""
        return _views().notebook_cell(self)

    def _summary(self) -> str:
        """The answer in a few words, for `repr`."""
        return str(getattr(self, "name", ""))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._summary()}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers, as the JSON file holds them; read back by `from_dict`."""
        return {"type": type(self).__name__, **msgspec.to_builtins(self)}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """The result that `to_dict` was called on.

        Raises:
            RooflabError: an unknown key, a missing or wrong value, another type of result, a newer schema.
        """
        return convert(cls, raw)


def complete(cls: type[Any]) -> type[Any]:
    """`cls` with the types in its `LATE` imported, which reading a result, or its schema, needs."""
    module = sys.modules[cls.__module__]
    for name, home in cls.LATE.items():
        if not hasattr(module, name):
            setattr(module, name, getattr(import_module(home), name))
    return cls


def convert(cls: type[Any], raw: object) -> Any:
    """`raw` as a `cls`, without its "type" and without the keys in `DERIVED`, which follow from the others.

    Raises:
        RooflabError: an unknown key, a missing or wrong value, another type of result, a newer schema.
    """
    if not isinstance(raw, dict):
        raise RooflabError(f"not {cls.WHAT}: expected an object, got {type(raw).__name__}")
    kind = raw.get("type", cls.__name__)
    if kind != cls.__name__:
        raise RooflabError(f"not {cls.WHAT}: its type is {kind!r}, expected {cls.__name__!r}")
    schema = raw.get("schema")
    if isinstance(schema, int) and schema > cls.NEWEST:
        raise RooflabError(f"schema {schema} is newer than this rooflab reads ({cls.NEWEST}); update rooflab")
    try:
        return msgspec.convert({key: raw[key] for key in raw if key not in ("type", *cls.DERIVED)}, complete(cls))
    except msgspec.ValidationError as error:
        raise RooflabError(f"not {cls.WHAT}: {error}") from None


# Documents that commands write beside results: each holds only what was drawn.
_PICTURES = {
    "Ladder": "rooflab machine NAME --ladder",
    "Topology": "rooflab machine NAME --topology",
    "Years": "rooflab machine --years",
    "Graph": "rooflab analyze FILE --graph",
}


def read(raw: object) -> Result:
    """The result in `raw`, a JSON document of any type of `RESULTS`.

    Raises:
        RooflabError: no such type, or what `from_dict` of that type raises.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise RooflabError('expected an object with a "type", as rooflab writes them')
    if raw["type"] in _PICTURES:
        raise RooflabError(f"holds the data of a picture, not a result; {_PICTURES[raw['type']]} makes it again")
    if raw["type"] not in RESULTS:
        raise UnknownNameError("type of result", raw["type"], RESULTS)
    return getattr(import_module(RESULTS[raw["type"]]), raw["type"]).from_dict(raw)


def _views() -> ModuleType:
    from rooflab import views

    return views
