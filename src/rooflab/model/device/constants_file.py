"""Constants in a file of the user's own: a family file that is `like` one of ours, with some numbers replaced."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.model.device.constants import constants_from_dict, family_names, load_family
from rooflab.types.calibration import Calibration
from rooflab.types.constants import Constants
from rooflab.types.machine import Machine
from rooflab.units import percent


def read(path: str | Path) -> Constants:
    """The constants in the file at `path`, as `rooflab calibrate` writes it.

    Raises:
        FileError: the file cannot be read, is like no family, or replaces what that family does not have.
    """
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileError(f"{path}: no such file; `rooflab calibrate` writes one") from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{path}: not valid TOML: {error}") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(raw.get("like"), str):
        names = ", ".join(family_names())
        raise FileError(f"{path}: like: got {raw.get('like')!r}, expected the family that it changes: {names}")
    try:
        base = load_family(raw["like"])
        constants = constants_from_dict(raw, path.name)
        _check(constants, base)
    except (RooflabError, msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise FileError(f"{path}: {error}") from None
    return msgspec.structs.replace(constants, family=base.family)


def _check(constants: Constants, base: Constants) -> None:
    for name, constant in constants.values.items():
        if name not in base.values:
            raise UnknownNameError(f"constant of {base.family}", name, sorted(base.values))
        numbers = constant.value if isinstance(constant.value, list) else [constant.value]
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise RooflabError(f"{name} is {constant.value}, expected a number of 0 or more")


def apply_to(constants: Constants, machine: Machine) -> bool:
    """Whether `constants` are for the kind of machine that `machine` is."""
    return "any" in (constants.kind, machine.kind) or constants.kind == machine.kind


def checked_for(constants: Constants, machine: Machine) -> Constants:
    """`constants`, where they are for the kind of machine that `machine` is.

    Raises:
        RooflabError: constants of GPUs for a CPU, or the other way round.
    """
    if not apply_to(constants, machine):
        raise RooflabError(
            f"constants {constants.family} are for a {constants.kind}, and {machine.name} is a {machine.kind}"
        )
    return constants


def text(calibration: Calibration) -> str:
    """The file that `read` reads: every constant that changed, with what it was and on what it was fitted."""
    import tomli_w

    base = load_family(calibration.family)
    ref = (
        f"rooflab calibrate {calibration.timings}: {calibration.rows} times on {calibration.machine}; "
        f"median error on rows not used in fitting {percent(calibration.after.median, 1)} "
        f"(before {percent(calibration.before.median, 1)})"
    )
    raw: dict[str, Any] = {
        "family": calibration.family,
        "like": calibration.family,
        "kind": base.kind,
        "members": [calibration.machine],
        "sources": {
            "calibration": {"kind": "measured", "ref": ref}
            | ({"date": calibration.date} if calibration.date else {})
        },
    }
    if base.vendor:
        raw["vendor"] = base.vendor
    # All that differs from the family as it ships: what an earlier calibration changed stays changed.
    for name, constant in sorted(calibration.constants.values.items()):
        before = base.values[name].value
        if constant.value != before and isinstance(constant.value, float):
            topic, _, last = name.partition(".")
            raw.setdefault(topic, {})[last] = {
                "value": float(f"{constant.value:.5g}"),
                "meaning": f"{base.values[name].meaning} (was {before:.5g})",
                "source": "calibration",
                "fitted": True,
            }
    return tomli_w.dumps(raw)
