"""What a step of a serving engine works on: chunks of prompts, and sequences that get one more token each."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np

from rooflab.errors import RooflabError

Number = float | np.ndarray


class Attending(TypedDict):
    """Sequences of one sort, the new tokens of each, and those before them: as `kernels.attention` takes them."""

    sequences: Number
    new: Number
    before: Number


class Batch(NamedTuple):
    """One step's sequences; every field a number, or an array over settings of one shape.

    Attributes:
        prefill_sequences: how many sequences have a chunk of their prompt in it.
        prefill_tokens: new tokens of each of them, in the mean.
        prefill_context: tokens of each that the cache holds already.
        decode_sequences: how many sequences get one token more.
        decode_context: tokens of each in the cache, the new one among them, in the mean.
        decode_tokens: new tokens of each of these: 1, and as many more as drafts are verified.
    """

    prefill_sequences: Number = 0.0
    prefill_tokens: Number = 0.0
    prefill_context: Number = 0.0
    decode_sequences: Number = 0.0
    decode_context: Number = 0.0
    decode_tokens: Number = 1.0

    @property
    def new_tokens(self) -> Number:
        """Tokens that pass through the layers."""
        return self.prefill_sequences * self.prefill_tokens + self.decode_sequences * self.decode_tokens

    @property
    def answers(self) -> Number:
        """Tokens that get logits: the last of each prompt, all of a sequence that decodes."""
        return self.prefill_sequences + self.decode_sequences * self.decode_tokens

    @property
    def sequences(self) -> Number:
        """All of them."""
        return self.prefill_sequences + self.decode_sequences

    @property
    def prompts(self) -> Attending:
        """The sequences whose prompts are computed."""
        return {
            "sequences": self.prefill_sequences,
            "new": self.prefill_tokens,
            "before": self.prefill_context,
        }

    @property
    def singles(self) -> Attending:
        """The sequences that decode, whose `decode_context` counts a new token."""
        return {
            "sequences": self.decode_sequences,
            "new": self.decode_tokens,
            "before": np.maximum(self.decode_context - 1.0, 0.0),
        }

    @property
    def cached_tokens(self) -> Number:
        """Tokens that the cache holds after it."""
        return (
            self.prefill_sequences * (self.prefill_tokens + self.prefill_context)
            + self.decode_sequences * self.decode_context
        )

    def arrays(self) -> Batch:
        """The same as arrays of one shape (settings,).

        Raises:
            RooflabError: a number below 0 or not finite.
        """
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(each, float)) for each in self))
        for name, each in zip(self._fields, arrays, strict=True):
            if not np.all(np.isfinite(each)) or np.any(each < 0):
                raise RooflabError(f"batch: {name} {each[~(each >= 0)][:1]}, expected numbers of at least 0")
        return Batch(*arrays)
