"""The errors a user can meet: each one line that says what, where, got, expected and the next step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_FEW_ENOUGH_TO_LIST = 12
_MOST_CHARS = 800


class RooflabError(Exception):
    """Bad input or a machine that cannot answer: one clear line, exit code 2 on the command line."""

    def __str__(self) -> str:
        """The message as one line that a terminal can show, whatever names a file had in it."""
        return one_line(super().__str__())


class UnknownNameError(RooflabError):
    """A name that is not in its table, with the near matches that are."""

    def __init__(self, what: str, got: str, known: Iterable[str], next_step: str = "") -> None:
        listed = list(dict.fromkeys(known))
        self.near = near_matches(got, listed)
        if self.near:
            near = f"; did you mean {', '.join(self.near)}?"
        elif not listed:
            near = "; none is there"
        elif len(listed) <= _FEW_ENOUGH_TO_LIST:
            near = f"; known: {', '.join(listed)}"
        else:
            near = "; no known name is near it"
        super().__init__(f"unknown {what} {got!r}{near}{' ' + next_step if next_step else ''}")


class FileError(RooflabError):
    """A file that cannot be read, written or believed; the message starts with its path."""


class MeasureError(RooflabError):
    """A machine that cannot be measured as asked (too little memory, no allowed CPU, a wrong kernel result)."""


class MissingExtraError(RooflabError):
    """A library that only an extra brings; the message says what to install."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {library}: python -m pip install 'rooflab[{extra}]'")


def one_line(text: str, most_chars: int = _MOST_CHARS) -> str:
    """`text` without line ends and control characters, these as Python escapes them, and cut in the middle."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    if len(text) <= most_chars:
        return text
    kept = (most_chars - 3) // 2
    return f"{text[:kept]} … {text[-kept:]}"


def near_matches(got: str, known: Iterable[str], count: int = 4) -> list[str]:
    """The `count` names of `known` nearest to `got`, best first; case and punctuation do not count."""
    plain: dict[str, str] = {}
    for name in known:
        plain.setdefault(squash(name), name)
    wanted = squash(got)
    close = difflib.get_close_matches(wanted, plain, n=count, cutoff=0.6 if len(wanted) > 4 else 0.5)
    within = [key for key in plain if wanted and len(wanted) > 1 and wanted in key and key not in close]
    if not close and not within:  # two or three of its words: "mac studio m3 ultra" holds "m3 ultra"
        words = "".join(char if char.isalnum() else " " for char in got.casefold()).split()
        runs = ("".join(words[at : at + size]) for size in (3, 2) for at in range(len(words) - size + 1))
        run = next((each for each in runs if len(each) > 3 and any(each in key for key in plain)), None)
        within = [key for key in plain if run is not None and run in key]
    return [plain[key] for key in (close + sorted(within, key=len))[:count]]


def squash(name: str) -> str:
    """`name` in lower case with only its letters and digits: the form in which names are compared."""
    return "".join(char for char in name.casefold() if char.isalnum())
