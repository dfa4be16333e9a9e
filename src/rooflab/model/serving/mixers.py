"""What mixes tokens in a layer, and the kernels of each sort: attention, latent, linear, state space, short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflab.model.serving import attention, compressed_attention, ggml, latent_attention, recurrent
from rooflab.model.serving.kernels import Kernel
from rooflab.work.llm.mixers import Attention, Compressed, Delta, Latent, Lightning, Mixer, ShortConv

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def kernels(run: Run, mixer: Mixer, count: float) -> list[Kernel]:
    """What one layer's mixer runs, `count` times."""
    if isinstance(mixer, Attention):
        return ggml.attention(run, mixer, count) if run.engine.one_by_one else attention.kernels(run, mixer, count)
    if isinstance(mixer, Latent):
        return latent_attention.kernels(run, mixer, count)
    if isinstance(mixer, Compressed):
        return compressed_attention.kernels(run, mixer, count)
    if isinstance(mixer, Delta):
        return recurrent.delta(run, mixer, count)
    if isinstance(mixer, Lightning):
        return recurrent.lightning(run, mixer, count)
    if isinstance(mixer, ShortConv):
        return recurrent.short_conv(run, mixer, count)
    return recurrent.state_space(run, mixer, count)
