"""Linear attention, state-space layers and short convolutions of one layer of a configuration, by family."""

from __future__ import annotations

import dataclasses

from rooflab.errors import RooflabError
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.mixers import Delta, Lightning, Recurrent, ShortConv, StateSpace


def mixer_of(family: Family, word: str, fields: Fields, number: int) -> Recurrent | None:
    """The recurrent mixer of layer `number`; None where it has another, or none."""
    if family.mixer == "kimi":
        return _kimi(fields, number)
    if family.mixer == "lightning" and _is_lightning(fields, number):
        heads, hidden = fields.size("num_attention_heads"), fields.size("hidden_size")
        return Lightning(heads, fields.size("head_dim", hidden // heads))
    if family.mixer == "delta" and _is_linear(fields, number):
        return Delta(
            heads=fields.size("linear_num_key_heads"),
            value_heads=fields.size("linear_num_value_heads"),
            size=fields.size("linear_key_head_dim"),
            values=fields.size("linear_value_head_dim"),
            taps=fields.size("linear_conv_kernel_dim", 4),
        )
    if family.mixer == "mamba":
        return _mamba(word, fields)
    if family.mixer == "conv" and not _attends(fields, number):
        return ShortConv(fields.size("hidden_size"), fields.size("conv_L_cache", 3), fields.flag("conv_bias"))
    if family.mixer == "nemotron_h" and nemotron_kind(fields, number) == "mamba":
        return _mamba2(
            fields, fields.size("mamba_num_heads") * fields.size("mamba_head_dim"),
            fields.size("mamba_num_heads"), bias=fields.flag("mamba_proj_bias"),
        )  # fmt: skip
    if family.mixer == "bamba" and not _attends(fields, number):
        inner = fields.size("mamba_expand", 2) * fields.size("hidden_size")
        return _mamba2(fields, inner, fields.size("mamba_n_heads"), bias=fields.flag("mamba_proj_bias"))
    return _mamba(word, fields) if family.mixer == "jamba" and not _jamba_attends(fields, number) else None


def _jamba_attends(fields: Fields, number: int) -> bool:
    """Whether a layer of Jamba attends: by its kind, or one of each so many."""
    if fields.kind(number) is not None:
        return _attends(fields, number)
    return number % fields.size("attn_layer_period", 8) == fields.count("attn_layer_offset", 4)


def beside_of(family: Family, fields: Fields) -> Recurrent | None:
    """The second mixer of each layer, whose result is added to the first's; None where there is one alone."""
    if family.mixer != "falcon_h1":
        return None
    expanded = fields.size("mamba_expand", 2) * fields.size("hidden_size")
    inner = fields.size("mamba_d_ssm", expanded)
    made = _mamba2(fields, inner, fields.size("mamba_n_heads"), bias=fields.flag("mamba_proj_bias"))
    return dataclasses.replace(made, normed=fields.flag("mamba_rms_norm"))


def _kimi(fields: Fields, number: int) -> Delta | None:
    """Of Kimi Linear: the delta rule with decays by channel; None where it attends. Files count layers from 1."""
    inside = fields.get("linear_attn_config")
    sizes = Fields(inside if isinstance(inside, dict) else {}, f"{fields.source}: linear_attn_config")
    if fields.maybe("layer_group_size"):
        return _bailing(fields, number)
    kind, whole = fields.kind(number), sizes.get("full_attn_layers")
    if kind is not None:
        linear = kind == "linear_attention"
    else:
        linear = number + 1 not in whole if isinstance(whole, list) else number % 4 != 0 or number == 0
    if not linear:
        return None
    heads = sizes.maybe("num_heads") or fields.size("linear_num_heads")
    size = sizes.maybe("head_dim") or fields.size("linear_head_dim")
    taps = sizes.maybe("short_conv_kernel_size") or fields.size("linear_conv_kernel_dim", 4)
    return Delta(heads, heads, size, size, taps, channels=True, rank=size)


def _bailing(fields: Fields, number: int) -> Delta | None:
    """Of Ling 3: the same with decays and gate by one product each; the last layer of every group attends."""
    kind = fields.kind(number)
    if kind == "full_attention" or (kind is None and (number + 1) % fields.size("layer_group_size") == 0):
        return None
    heads = fields.size("linear_num_heads", fields.size("num_attention_heads"))
    taps = fields.size("short_conv_kernel_size", fields.size("linear_conv_kernel_dim", 4))
    # A saved file's head_dim is that of attention's positions.
    size = fields.maybe("linear_head_dim") or fields.size("head_dim", 128)
    return Delta(heads, heads, size, size, taps, channels=True)


def _is_lightning(fields: Fields, number: int) -> bool:
    """Whether a layer of MiniMax is linear: by its kind, a list of 0 and 1, or every second."""
    kind, listed = fields.kind(number), fields.listed("attn_type_list", number)
    if kind is not None:
        return kind == "linear_attention"
    if listed is not None:
        return not listed
    return number % 2 == 1


def _is_linear(fields: Fields, number: int) -> bool:
    kind, every = fields.kind(number), fields.size("full_attention_interval", 4)
    return (number + 1) % every != 0 if kind is None else kind == "linear_attention"


def _attends(fields: Fields, number: int) -> bool:
    """Whether a layer beside Mamba-2's attends: by its kind, or among those listed."""
    kind = fields.kind(number)
    if kind is not None:
        return "attention" in kind and "linear" not in kind
    listed = fields.get("attn_layer_indices")
    listed = fields.get("full_attn_idxs") if listed is None else listed
    return isinstance(listed, list) and number in listed


def _mamba(word: str, fields: Fields) -> StateSpace:
    hidden = fields.size("hidden_size")
    expand = fields.size("expand", fields.size("mamba_expand", 2))
    inner = (
        fields.size("intermediate_size", expand * hidden) if word in ("mamba", "falcon_mamba") else expand * hidden
    )
    if word == "mamba2":
        return _mamba2(fields, inner, fields.size("num_heads"), bias=fields.flag("use_bias"))
    rank = fields.get("time_step_rank") or fields.get("mamba_dt_rank")
    return StateSpace(
        inner=inner,
        state=fields.size("state_size", fields.size("mamba_d_state", 16)),
        taps=fields.size("conv_kernel", fields.size("mamba_d_conv", 4)),
        rank=rank if isinstance(rank, int) else -(-hidden // 16),
        bias=fields.flag("use_bias", fields.flag("mamba_proj_bias")),
        conv_bias=fields.flag("use_conv_bias", fields.flag("mamba_conv_bias", True)),
    )


def _mamba2(fields: Fields, inner: int, heads: int, *, bias: bool) -> StateSpace:
    return StateSpace(
        inner=inner,
        state=fields.size("ssm_state_size", fields.size("state_size", fields.size("mamba_d_state", 128))),
        taps=fields.size("conv_kernel", fields.size("mamba_d_conv", 4)),
        heads=heads,
        groups=fields.size("n_groups", fields.size("mamba_n_groups", 1)),
        bias=bias,
        conv_bias=fields.flag("use_conv_bias", fields.flag("mamba_conv_bias", True)),
    )


def nemotron_kind(fields: Fields, number: int) -> str:
    """What layer `number` of Nemotron-H is: "mamba", "attention", "mlp" or "moe".

    Raises:
        RooflabError: a letter of its pattern that stands for none.
    """
    pattern = fields.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        kinds = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
        if pattern[number] not in kinds:
            raise RooflabError(
                f"{fields.source}: hybrid_override_pattern has {pattern[number]!r} at layer {number}, expected M "
                "(Mamba), * (attention), - (feed-forward) or E (experts)"
            )
        return kinds[pattern[number]]
    kind = fields.kind(number) or "mamba"
    return {"linear_attention": "mamba", "full_attention": "attention"}.get(kind, kind)
