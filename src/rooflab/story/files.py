"""What did I save? Results read back from their files."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path

from rooflab.errors import FileError, RooflabError
from rooflab.types.result import Result


def load(path: str | PathLike[str]) -> Result:
    """The result in a file that `save` or -o wrote: of any type as JSON, a machine as TOML too.

    Args:
        path: of the file.

    Returns:
        A `Machine`, `Report`, `Variants`, `LoopReport`, `TileSweep`, `Simulation`, `CoreSimulation`, `MissCurve`,
        `Transfer`, `Calibration` or `Sweep`, as the "type" in the file says.

    Raises:
        FileError: a file that cannot be read, that is no result, or of a newer schema.
    """
    import msgspec

    from rooflab.machines import catalog
    from rooflab.types import result

    file = Path(os.fspath(path))
    if file.suffix.lower() == ".toml":
        return catalog.read(file)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{file}: no such file") from None
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror or error}") from None
    try:
        raw = msgspec.json.decode(content)
        # A machine is held to what its file says twice, by whichever door it comes.
        return catalog.read(file) if isinstance(raw, dict) and raw.get("type") == "Machine" else result.read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file}: not JSON ({error}), expected a file that rooflab saved") from None
    except RooflabError as error:
        raise FileError(f"{file}: {error}") from None
