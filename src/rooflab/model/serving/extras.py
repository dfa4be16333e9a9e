"""What a server does beside plain steps: adapters, drafts, pictures, uneven experts, prefixes on the host."""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.errors import RooflabError
from rooflab.model.parallel.layout import Layout
from rooflab.types.machine import Machine
from rooflab.work.llm.architecture import Architecture, Experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """All off where nothing is said.

    Attributes:
        lora_rank: of LoRA adapters beside each projection of the layers (arXiv:2106.09685); 0 for none. `loras`
            of them are held, and requests take any of them alike.
        drafts: tokens that a step drafts for each sequence and the next one verifies, by the model's own last
            layer (multi-token prediction); `accepted` is what a step gives each in the mean, the user's number.
        imbalance: rows of the busiest rank of experts in multiples of the mean; None for what chance makes of it.
        images: pictures of a prompt, `image_tokens` of whose tokens are theirs, all together.
        overlap: whether a step is two half batches, one of which computes while the other communicates.
        on_host: whether tokens of a prompt that are cached lie in the host's memory.
    """

    lora_rank: int = 0
    loras: int = 1
    drafts: int = 0
    accepted: float = 1.0
    imbalance: float | None = None
    images: int = 1
    image_tokens: int = 0
    overlap: bool = False
    on_host: bool = False

    def notes(self, model: Architecture) -> list[str]:
        """What was asked beside, in sentences with their assumptions."""
        said = []
        if self.lora_rank:
            said.append(
                f"{self.loras:,} LoRA adapters of rank {self.lora_rank} beside each projection of the layers (not "
                "of experts), requests spread over them evenly: two products more a projection, weights of those "
                "that a step meets"
            )
        if self.drafts:
            said.append(
                f"{self.drafts} drafts a step by the last layer and the head, with which a step gives "
                f"{self.accepted:g} tokens in the mean: how many are accepted is taken as given"
                + ("" if model.draft_layers else _NO_LAYER.format(model.name))
            )
        if self.imbalance is not None:
            said.append(
                f"the busiest rank of experts has {self.imbalance:g} times the mean number of rows, as given"
            )
        if self.image_tokens and model.tower is not None:
            said.append(
                f"{self.image_tokens:,} tokens of a prompt are of {self.images} pictures: "
                f"{self.image_tokens * model.tower.merge:,} patches pass through the tower in the prompt's steps"
            )
        if self.overlap:
            said.append("two half batches a step: while one computes, the other communicates")
        return said


_NO_LAYER = (
    "; {} states no layer for drafts: one like its last and a head are taken to be trained for it, as EAGLE's are"
)
NONE = Extras()


def check(extras: Extras, model: Architecture, layout: Layout, prompt: float) -> None:
    """Whether `model` in `layout` can have them, with prompts of so many tokens that are not cached.

    Raises:
        RooflabError: it cannot; what to change.
    """
    for name, value, least in (
        ("lora_rank", extras.lora_rank, 0),
        ("loras", extras.loras, 1),
        ("drafts", extras.drafts, 0),
        ("images", extras.images, 1),
        ("image_tokens", extras.image_tokens, 0),
    ):
        if value < least:
            raise RooflabError(f"{name}: got {value}, expected a whole number of at least {least}")
    if not 1.0 <= extras.accepted <= extras.drafts + 1:
        raise RooflabError(
            f"accepted: got {extras.accepted:g} tokens a step, expected 1 to {extras.drafts + 1} with "
            f"{extras.drafts} drafts (say --drafts)"
        )
    if extras.imbalance is not None:
        if not extras.imbalance >= 1.0:
            raise RooflabError(f"imbalance: got {extras.imbalance:g}, expected 1 (all ranks alike) or more")
        if not any(isinstance(block.feed, Experts) for block in model.blocks):
            raise RooflabError(f"imbalance: {model.name} has no experts")
        if layout.experts == 1:
            raise RooflabError("imbalance: every rank has a part of each expert; say over how many ranks (--ep)")
    if extras.image_tokens:
        if model.tower is None:
            raise RooflabError(f"image_tokens: {model.name} has no tower for pictures")
        if extras.image_tokens > prompt:
            raise RooflabError(
                f"image_tokens: got {extras.image_tokens:,}, and a prompt has {prompt:,.0f} tokens to compute: "
                "give --isl with those of pictures"
            )
    if extras.overlap and layout.ranks == 1:
        raise RooflabError("overlap: one device sends nothing to others; nothing can be hidden")


def from_host_s(nbytes: float, machine: Machine) -> float:
    """Seconds until so many bytes are on the device, from the host's memory.

    What is pinned moves at the link's attained rate where that is known, else at its theoretical one.

    Raises:
        RooflabError: the machine states no link to its host.
    """
    for link in machine.links:
        rate = link.pinned_bytes_per_s or link.each_way_bytes_per_s
        if link.to in ("host", "CPU die") and rate:
            return nbytes / rate
    raise RooflabError(
        f"{machine.name} states no link to its host, over which cached tokens would come: add [[links]] with "
        'to = "host" to its file'
    )
