"""Workers of InferenceX's disaggregated runs: which prefill and decode copies a row was measured with.

The silicon sample states them for few rows. InferenceX's list of runs does for all (serving_runs.txt), by card,
engine, format, lengths and concurrency; the places of a decoding copy stand in the names of its recipes
(ishandhanani/srt-slurm, recipes/), and what a step that computes prompts holds in the recipes themselves. A card's
runs with and without multi-token prediction may have the same concurrency, and a row does not say which it is:
the faster rows of a setting are taken to be those with drafts, where they lie apart; else several fit.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rooflab.model.parallel.layout import Layout


class Pools(NamedTuple):
    """Copies of both kinds.

    Attributes:
        prefills, prefill: how many copies compute prompts, and their layout.
        decodes, decode: how many decode.
        places: sequences of one rank (of a group that takes its own) of a decoding copy; None where not stated.
        drafts: of multi-token prediction; 0 for none.
        step_tokens: that one rank computes in a step of prompts.
    """

    prefills: int
    prefill: Layout
    decodes: int
    decode: Layout
    places: int | None
    drafts: int
    step_tokens: int

    @property
    def devices(self) -> int:
        """Of all copies."""
        return self.prefills * self.prefill.ranks + self.decodes * self.decode.ranks


def pools(row: dict[str, str], clients: float) -> list[Pools]:
    """Those that fit a row: its setting, concurrency and time, and of copies that decode what it states.

    Of rows without copies of their own for prompts the columns hold all devices together.
    """
    family = "gpt-oss" if "gpt-oss" in row["model_path"] else "deepseek"
    if family == "deepseek" and "DeepSeek" not in row["model_path"]:
        return []
    measured = re.search(r"measured=(\d+)", row["silicon_data_source"])
    if family == "deepseek" and measured and measured[1] == "2025":
        family = "2025"
    key = (family, *(row[name] for name in ("system", "backend", "precision", "isl", "osl")), round(clients))
    found = _runs().get(key, [])
    if row["mode"] == "agg":
        return [each for each in found if each.devices == int(row["tp_size"])]
    devices, copies = int(row["decode_tp_size"] or 0), int(row["decode_num_workers"] or 0)
    if devices > 8 and devices == int(row["prefill_tp_size"] or 0):
        alike = [each for each in found if each.devices == devices]
        if alike:
            return alike
    ways = int(row["decode_attention_dp_size"] or 1)
    # Rows that state no workers give one device where none is known.
    found = [each for each in found if devices <= 1 or each.decode.ranks in (devices, devices * ways)]
    return [each for each in found if not copies or each.decodes == copies]


_APART = (
    1.25  # drafts give 1.8 to 2.3 tokens a step: where one row takes so much longer than the next, it has none
)


def drafting_below(rows: Iterable[dict[str, str]]) -> dict[tuple[str, ...], float]:
    """By setting, milliseconds of a token below which rows were measured with drafts.

    Where rows of one setting lie apart in two groups, those that are faster are those with drafts: that is what
    drafts are for. Settings whose rows lie together are left out: which of two runs they are of stays open.
    """
    times: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        times.setdefault(setting(row), []).append(float(row["silicon_tpot_ms"]))
    found = {}
    for key, each in times.items():
        each.sort()
        gap, below, above = max(((b / a, a, b) for a, b in itertools.pairwise(each)), default=(1.0, 0.0, 0.0))
        if gap > _APART:
            found[key] = math.sqrt(below * above)
    return found


def setting(row: dict[str, str]) -> tuple[str, ...]:
    """What a row says of the run that it is of, but for what was measured."""
    clients = re.search(r"concurrency=(\d+)", row["silicon_data_source"])
    names = ("model_path", "system", "backend", "precision", "isl", "osl", "mode")
    copies = ("decode_tp_size", "decode_num_workers", "decode_attention_dp_size")
    return (*(row[name] for name in (*names, *copies)), clients[1] if clients else "")


def of_kind(listed: list[Pools], row: dict[str, str], below: dict[tuple[str, ...], float]) -> list[Pools]:
    """Of the runs that fit a row those with drafts, or without, where its setting's rows tell them apart."""
    limit = below.get(setting(row))
    if limit is None or len({each.drafts > 0 for each in listed}) < 2:
        return listed
    drafting = float(row["silicon_tpot_ms"]) < limit
    return [each for each in listed if (each.drafts > 0) == drafting]


_AGAIN = 1.05  # times of one setting measured again within a version differ by 1.02


class Known(NamedTuple):
    """What rows of one run alone say: by run, its numbers of clients and milliseconds of a token."""

    times: dict[tuple, list[tuple[float, float]]]

    def may_be(self, row: dict[str, str], clients: float, listed: list[Pools]) -> list[Pools]:
        """The runs of `listed` that a row may be of, with drafts or without: more clients never had tokens sooner.

        Copies that differ otherwise are not told apart so: their times differ by less than those measured again.
        """
        took = float(row["silicon_tpot_ms"])
        kinds = {
            each.drafts > 0
            for each in listed
            if all(
                (many <= clients or ms * _AGAIN >= took) and (many >= clients or ms <= took * _AGAIN)
                for many, ms in self.times.get(_run(row, each), ())
            )
        }
        return [each for each in listed if (each.drafts > 0) in kinds] or listed


def known(rows: Iterable[dict[str, str]], below: dict[tuple[str, ...], float]) -> Known:
    """Of rows that only one run fits, whose drafts are settled by the list or by `below`."""
    times: dict[tuple, list[tuple[float, float]]] = {}
    for row in rows:
        found = re.search(r"concurrency=(\d+)", row["silicon_data_source"])
        if found is None:
            continue
        clients = float(found[1])
        runs = {_run(row, each) for each in of_kind(pools(row, clients), row, below)}
        if len(runs) == 1:
            times.setdefault(runs.pop(), []).append((clients, float(row["silicon_tpot_ms"])))
    return Known(times)


def _run(row: dict[str, str], of: Pools) -> tuple:
    """A run's setting and copies, at any number of clients."""
    measured = re.search(r"measured=(\d+)", row["silicon_data_source"])
    names = ("model_path", "system", "backend", "backend_version", "precision", "isl", "osl")
    return (*(row[name] for name in names), measured and measured[1], *of[:4], of.drafts)


@functools.cache
def _runs() -> dict[tuple, list[Pools]]:
    found: dict[tuple, list[Pools]] = {}
    head: tuple[str, ...] = ()
    lines = Path(__file__).with_name("serving_runs.txt").read_text(encoding="utf-8").splitlines()
    for words in (line.split() for line in lines if not line.startswith("#")):
        if {"trtllm", "sglang"} & set(words):
            head = tuple(words) if len(words) == 6 else ("deepseek", *words)
            continue
        prefills, prefill = _copies(words[1])
        decodes, decode = _copies(words[2])
        places = None if words[3] == "-" else int(words[3])
        of = Pools(prefills, prefill, decodes, decode, places, int(words[4]), _step_tokens(head, prefill))
        for clients in words[0].split(","):
            found.setdefault((*head, int(clients)), []).append(of)
    return found


def _copies(word: str) -> tuple[int, Layout]:
    count, sort, ways = re.fullmatch(r"(\d+)x(TP|TEP|DP|DEP)(\d+)", word).groups()  # type: ignore[union-attr]
    ranks = int(ways)
    experts = ranks if "E" in sort else 1
    return int(count), Layout(data=ranks, experts=experts) if sort[0] == "D" else Layout(
        tensor=ranks, experts=experts
    )


def _step_tokens(head: tuple[str, ...], prefill: Layout) -> int:
    """Of one rank, by recipes that were read: two prompts of 8192 tokens or sixteen of 1024, but for a few."""
    family, card, engine, form, prompt = head[:5]
    if family == "gpt-oss":
        return 20000
    if family == "2025" and engine == "trtllm":
        return 4608 if prompt == "1024" else 8448
    if engine == "sglang":
        return 16384 if prefill.data > 1 else 32768
    few = {("b200_sxm", "fp8", "8192"): 8320, ("h200_sxm", "fp8", "1024"): 8192, ("h100_sxm", "fp8", "1024"): 2048}
    return few.get((card, form, prompt), 16640)
