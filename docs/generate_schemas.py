"""Writes the arguments of PyTorch's own operators that the vocabulary knows: `python docs/generate_schemas.py`."""

from __future__ import annotations

from pathlib import Path

import torch

from rooflab.work import vocabulary

FILE = Path(__file__).parent.parent / "src" / "rooflab" / "work" / "vocab" / "torch_schemas.txt"
HEAD = """\
# Arguments of PyTorch's operators, an overload a line, as schemas name them: a profiler records them by place.
# Written by `python docs/generate_schemas.py`; a test holds it to the PyTorch that is installed.
"""


def lines() -> list[str]:
    """A line for each distinct list of arguments: the operator, and "name" or "name=default" of each argument."""
    found: dict[str, None] = {}
    for name in vocabulary.load("torch"):
        namespace, _, packet = name.partition(".")
        if namespace != "aten":  # of libraries that may not be there
            continue
        for form in (packet, packet + "_", f"_foreach_{packet}", f"_foreach_{packet}_"):
            operators = getattr(getattr(torch.ops, namespace), form, None)
            for overload in [] if operators is None else operators.overloads():
                schema = getattr(operators, overload)._schema
                if any(one.is_out for one in schema.arguments):
                    continue
                arguments = " ".join(_argument(one) for one in schema.arguments)
                found.setdefault(f"{namespace}.{form} {arguments}".rstrip())
    return list(found)


def _argument(one: torch.Argument) -> str:
    default = one.default_value if one.has_default_value() else None
    simple = default is not None and isinstance(default, (bool, int, float)) and " " not in str(default)
    return f"{one.name}={default}" if simple else one.name


if __name__ == "__main__":
    FILE.write_text(HEAD + "\n".join(lines()) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(lines())} lines")
