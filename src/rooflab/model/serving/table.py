"""Seconds of a step on a grid of what it holds, asked of the model once: for thousands of settings, for events."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rooflab.model.serving.batch import Batch


class Table(NamedTuple):
    """Seconds of a step on a grid; between its points they are straight in each axis, beyond its ends too.

    Attributes:
        tokens, attended: new tokens of prompts, from 0 on, and what each of them attends to in the mean.
        sequences, context: that decode, from 0 on, and what each attends to in the mean.
        seconds: by those four; where no prompt is computed the first entry of `attended` counts, where nothing
            decodes the first of `context`.
    """

    tokens: np.ndarray
    attended: np.ndarray
    sequences: np.ndarray
    context: np.ndarray
    seconds: np.ndarray

    def at(self, tokens: Any, attended: Any, sequences: Any, context: Any) -> np.ndarray:
        """Seconds of steps, arrays of one shape.

        Args:
            tokens, sequences: in the step.
            attended, context: what each of them attends to, in the mean.
        """
        given = np.broadcast_arrays(*(np.asarray(each, float) for each in (tokens, attended, sequences, context)))
        shape = given[0].shape
        tokens, attended, sequences, context = (np.ravel(each) for each in given)
        places = [
            _places(axis, values)
            for axis, values in zip(
                self[:4],
                (tokens, np.where(tokens > 0, attended, 0.0), sequences, np.where(sequences > 0, context, 0.0)),
                strict=True,
            )
        ]
        for number, alone in ((1, tokens <= 0), (3, sequences <= 0)):
            index, part = places[number]
            places[number] = (np.where(alone, 0, index), np.where(alone, 0.0, part))
        # Axes on which every value lies at a point need no second corner.
        between = [number for number, (_, part) in enumerate(places) if part.any()]
        found = np.zeros(len(tokens))
        for corner in range(1 << len(between)):
            weight, where = np.ones(len(tokens)), [index for index, _ in places]
            for bit, number in enumerate(between):
                index, part = places[number]
                if corner >> bit & 1:
                    weight, where[number] = weight * part, index + 1
                else:
                    weight = weight * (1.0 - part)
            found += weight * self.seconds[tuple(where)]
        return found.reshape(shape)


def _places(axis: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Before which entry of `axis` each value lies, and how far to it."""
    index = np.clip(np.searchsorted(axis, values), 1, len(axis) - 1) - 1
    return index, (values - axis[index]) / (axis[index + 1] - axis[index])


def grid_of(
    token_budget: int,
    most_sequences: int,
    most_context: float = 1.0,
    *,
    attended: float | None = None,
    context: float | None = None,
    coarse: bool = False,
) -> Grid:
    """The batches of a table for steps up to those sizes.

    Points lie at 0, 1 and powers of two, half-way between them (unless `coarse`) from 64 new tokens on, where
    products fill their tiles step by step; kernels of a step follow each other, so each axis is close to straight
    between them. Where `attended` and `context` are given, it holds for those alone.
    """
    tokens = _axis(token_budget, None if coarse else 64)
    sequences = _axis(most_sequences, None if coarse else 8)
    seen, held = (_far(most_context) if each is None else np.array([each]) for each in (attended, context))
    given = [each.ravel() for each in np.meshgrid(tokens, seen, sequences, held, indexing="ij")]
    # What does not matter is not asked: attention of no tokens, contexts of no sequences.
    asked = ((given[0] > 0) | (given[1] == seen[0])) & ((given[2] > 0) | (given[3] == held[0]))
    asked &= (given[0] > 0) | (given[2] > 0)
    return Grid((tokens, seen, sequences, held), asked, batch_of(*(each[asked] for each in given)))


class Grid(NamedTuple):
    """The axes of a table, which of its points are asked for, and the batches of those."""

    axes: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    asked: np.ndarray
    batch: Batch

    def table(self, seconds: np.ndarray) -> Table:
        """The table of the `seconds` of each batch."""
        tokens, seen, sequences, held = self.axes
        found = np.zeros(len(self.asked))
        found[self.asked] = seconds
        found = found.reshape([len(axis) for axis in self.axes])
        found[0] = found[0, :1]
        found[:, :, 0] = found[:, :, 0, :1]
        for axis, alone in ((1, seen), (3, held)):
            if len(alone) == 1:
                found = np.repeat(found, 2, axis=axis)
        return Table(tokens, _two(seen), sequences, _two(held), found)


def _two(axis: np.ndarray) -> np.ndarray:
    """An axis of one point as one of two, between which nothing changes."""
    return axis if len(axis) > 1 else np.array([axis[0], axis[0] + 1.0])


def batch_of(tokens: Any, attended: Any, sequences: Any, context: Any) -> Batch:
    """The batch of a step: prompts that attend to so many tokens, one after another or with a context before.

    New tokens of one prompt attend to (tokens + 1) / 2 of themselves in the mean: what is attended to beyond that
    is context, what falls short of it means several prompts.
    """
    tokens, attended = np.asarray(tokens, float), np.asarray(attended, float)
    own = (tokens + 1.0) / 2.0
    several = np.where(tokens > 0, np.maximum(tokens / np.maximum(2.0 * attended - 1.0, 1.0), 1.0), 0.0)
    return Batch(
        prefill_sequences=several,
        prefill_tokens=np.where(several > 0, tokens / np.maximum(several, 1.0), 0.0),
        prefill_context=np.where(tokens > 0, np.maximum(attended - own, 0.0), 0.0),
        decode_sequences=np.asarray(sequences, float),
        decode_context=np.where(np.asarray(sequences) > 0, context, 0.0),
    )


def _axis(most: int, halves_from: int | None) -> np.ndarray:
    """0, 1, powers of two up to `most`, and half-way between them from `halves_from` on."""
    powers = 2.0 ** np.arange(0, np.ceil(np.log2(max(most, 2))) + 1)
    powers = powers[powers < most]
    if halves_from is None:
        halves = powers[:0]
    else:
        halves = 1.5 * powers[(powers >= halves_from) & (1.5 * powers < most)]
    return np.unique(np.concatenate(([0.0, 1.0], powers, halves, [max(most, 2)])))


def _far(most: float) -> np.ndarray:
    """Contexts up to `most`."""
    return np.unique(
        np.concatenate(([1.0], 4.0 ** np.arange(4, np.log(max(most, 2)) / np.log(4)), [max(most, 2.0)]))
    )
