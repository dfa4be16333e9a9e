"""The constants of a machine family: what real kernels lose, each with its meaning and source."""

from __future__ import annotations

import msgspec

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.machine import Source


class Constant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One constant: its value in base units, what it means, where it is from.

    Attributes:
        fitted: whether it was adjusted to measured times (the source says which), not read off a
            datasheet or measured by itself.
    """

    value: float | list[float]
    meaning: str
    source: Source
    fitted: bool = False


class Constants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A family's constants by "topic.name".

    Attributes:
        wider: factor on the spread of predictions, 1 for a family that was fitted itself.
    """

    family: str
    members: tuple[str, ...]
    kind: str
    vendor: str | None
    years: tuple[int, int] | None
    wider: float
    values: dict[str, Constant]

    def __call__(self, name: str) -> float:
        """The number called `name` ("matmul.fill_clocks").

        Raises:
            UnknownNameError: no such constant, with near matches.
        """
        constant = self.values.get(name)
        if constant is None:
            raise UnknownNameError(f"constant of {self.family}", name, sorted(self.values))
        if isinstance(constant.value, list):
            raise RooflabError(f"constant {name} of {self.family} is a list; read it with `many`")
        return constant.value

    def many(self, name: str) -> list[float]:
        """The list of numbers called `name`."""
        constant = self.values.get(name)
        if constant is None:
            raise UnknownNameError(f"constant of {self.family}", name, sorted(self.values))
        return constant.value if isinstance(constant.value, list) else [constant.value]

    def models(self, topic: str) -> bool:
        """Whether the family has constants for the mechanism called `topic`."""
        return f"{topic}.spread" in self.values

    def specialised(self, topic: str, kernel: str) -> Constants:
        """These constants, those of the topic `topic_kernel` in the place of `topic`'s of the same names."""
        head = f"{topic}_{kernel}."
        ours = {
            f"{topic}.{name[len(head) :]}": each for name, each in self.values.items() if name.startswith(head)
        }
        return msgspec.structs.replace(self, values={**self.values, **ours}) if ours else self

    def replaced(self, values: dict[str, float]) -> Constants:
        """These constants with other numbers for some of them, each said to be "assumed: given"."""
        changed = dict(self.values)
        for name, value in values.items():
            self(name)
            changed[name] = msgspec.structs.replace(changed[name], value=value)
        return msgspec.structs.replace(self, values=changed)
