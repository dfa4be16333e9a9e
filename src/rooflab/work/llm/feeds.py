"""One layer of a configuration: its feed-forward part, dense or of experts, by family."""

from __future__ import annotations

import dataclasses

from rooflab.errors import RooflabError
from rooflab.work.llm.architecture import Experts, Mlp
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.layers import borrows, chosen
from rooflab.work.llm.recurrent_layers import nemotron_kind


def feed_of(family: Family, word: str, fields: Fields, number: int) -> Mlp | Experts | None:
    """The feed-forward part of layer `number`; None where it has none."""
    readers = {
        "mixtral": _mixtral, "qwen": _qwen, "deepseek": _deepseek, "minimax": _mixtral, "gpt_oss": _gpt_oss,
        "llama4": _llama4, "nemotron_h": _nemotron, "jamba": _jamba, "granite": _granite, "ernie": _ernie,
        "hunyuan": _hunyuan, "gemma4": _gemma4,
        "chosen": _chosen_feed, "lfm2": _lfm2, "halved": _halved, "step": _step, "minimax_m3": _minimax_m3,
        "longcat": _longcat, "gemma3n": _gemma3n,
    }  # fmt: skip
    if family.feed == "none":
        return None
    if family.feed in readers:
        return readers[family.feed](family, fields, number)
    return dense_of(family, word, fields)


def dense_of(family: Family, word: str, fields: Fields) -> Mlp:
    """A dense feed-forward part; four times as wide as the hidden size where no field says."""
    inner = fields.size("intermediate_size", 4 * fields.size("hidden_size"))
    if word == "mpt":
        inner = fields.size("expansion_ratio", 4) * fields.size("hidden_size")
    if word == "falcon":
        inner = fields.size("ffn_hidden_size", 4 * fields.size("hidden_size"))
    gated = family.gated
    if word == "t5":
        gated = "gated" in str(fields.get("feed_forward_proj") or "relu")
    bias = fields.flag("mlp_bias", fields.flag("use_mlp_bias")) if family.mlp_bias is None else family.mlp_bias
    return Mlp(inner, gated, bias, bias)


def _mixtral(family: Family, fields: Fields, number: int) -> Experts:
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("intermediate_size"),
    )


def _gpt_oss(family: Family, fields: Fields, number: int) -> Experts:
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("intermediate_size"),
        bias=True,
        router_bias=True,
    )


def _qwen(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    count = fields.count("num_local_experts", fields.count("num_experts"))
    only_dense = fields.get("mlp_only_layers") or []
    if not count or number in only_dense or (number + 1) % fields.size("decoder_sparse_step", 1):
        return Mlp(fields.size("intermediate_size"))
    shared = fields.count("shared_expert_intermediate_size")
    return Experts(
        count=count,
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("moe_intermediate_size", fields.maybe("intermediate_size")),
        shared=shared,
        shared_gate=bool(shared),
    )


def _deepseek(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    count = fields.count("num_local_experts", fields.count("n_routed_experts"))
    wide = fields.maybe("intermediate_size")  # of dense layers; of the experts too where nothing else is stated
    if not count or _is_dense(fields, number):
        return Mlp(fields.size("intermediate_size"))
    inner = fields.size("moe_intermediate_size", wide)
    return Experts(
        count=count,
        chosen=fields.size("num_experts_per_tok"),
        inner=inner,
        shared=_shared(fields, inner),
        width=fields.count("moe_hidden_size"),
    )


def _shared(fields: Fields, inner: int) -> int:
    """Inner size of what every token meets: as stated, or of so many experts of their own size or `inner`."""
    count = fields.get("n_shared_experts")
    if count is None:
        return fields.count("shared_expert_intermediate_size")
    return fields.size("moe_shared_expert_intermediate_size", inner) * fields.count("n_shared_experts")


def _step(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    """Of Step 3.5: experts in the layers that a list names; all but the first few where none does."""
    named, kind = _named_layers(fields), fields.kind(number, ("mlp_layer_types",))
    first = fields.count("first_k_dense_replace", 3)
    sparse = number >= first if named is None else number in named
    if kind == "dense" or (kind is None and not sparse):
        return Mlp(fields.size("intermediate_size"))
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("moe_intermediate_size"),
        shared=fields.count("share_expert_dim"),
    )


def _named_layers(fields: Fields) -> frozenset[int] | None:
    """The layers with experts, of a list or of a text with commas; None where no field names them.

    Raises:
        RooflabError: what is no list of whole numbers.
    """
    stated = fields.get("moe_layers_enum")
    listed = stated.split(",") if isinstance(stated, str) else stated
    if listed is None:
        return None
    numbers = [str(each).strip() for each in listed] if isinstance(listed, list) else [""]
    if not all(each.isdigit() for each in numbers):
        raise RooflabError(
            f"{fields.source}: moe_layers_enum is {stated!r}, expected numbers of layers with commas"
        )
    return frozenset(map(int, numbers))


def _minimax_m3(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    wide = fields.maybe("dense_intermediate_size")
    if _is_dense(fields, number):
        return Mlp(wide or fields.size("dense_intermediate_size"))
    return dataclasses.replace(
        _mixtral(family, fields, number),
        shared=fields.count("shared_intermediate_size") * fields.count("n_shared_experts", 1),
    )


def _is_dense(fields: Fields, number: int) -> bool:
    """Whether layer `number` has no experts: by its kind, by a list of 0 and 1, or by how many are dense first."""
    kind, listed = fields.kind(number, ("mlp_layer_types",)), fields.listed("moe_layer_freq", number)
    first = fields.count("first_k_dense_replace")
    if kind is not None:
        return kind == "dense"
    if listed is not None:
        return not listed
    return number < first or number % fields.size("moe_layer_freq", 1) != 0


def _llama4(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    step = fields.size("interleave_moe_layer_step", 1)
    routed = fields.get("moe_layers")
    if (number not in routed) if isinstance(routed, list) and routed else (number + 1) % step:
        return Mlp(fields.size("intermediate_size_mlp"))
    inner = fields.size("intermediate_size")
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=inner,
        shared=inner,
    )


def _nemotron(family: Family, fields: Fields, number: int) -> Mlp | Experts | None:
    kind = nemotron_kind(fields, number)
    if kind == "mlp":
        return Mlp(fields.size("intermediate_size"), gated=False, bias=fields.flag("mlp_bias"))
    if kind != "moe":
        return None
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("moe_intermediate_size"),
        gated=False,
        shared=fields.count("n_shared_experts", 1) * fields.count("moe_shared_expert_intermediate_size"),
        width=fields.count("moe_latent_size"),
    )


def _chosen_feed(family: Family, fields: Fields, number: int) -> Mlp | None:
    """As wide as a multiple of the hidden size says, rounded up to 256 (DeciLM's modeling_decilm.py)."""
    if not isinstance(fields.get("block_configs"), list):
        return Mlp(fields.size("intermediate_size"))
    found = chosen(fields, number, "ffn")
    if found is None:
        return None
    multiple = found.get("ffn_mult")
    if isinstance(multiple, bool) or not isinstance(multiple, (int, float)) or multiple <= 0:
        raise RooflabError(f"{found.source}: ffn_mult is {multiple!r}, expected a number above 0")
    return Mlp(-(-int(2 * multiple * fields.size("hidden_size") / 3) // 256) * 256)


def _lfm2(family: Family, fields: Fields, number: int) -> Mlp:
    """Two thirds as wide as stated, rounded up, where the file does not say otherwise (modeling_lfm2.py)."""
    inner = fields.maybe("block_ff_dim") or fields.size("intermediate_size")
    if fields.flag("block_auto_adjust_ff_dim", True):
        multiplier, step = fields.get("block_ffn_dim_multiplier"), fields.size("block_multiple_of", 256)
        inner = int((1.0 if multiplier is None else float(multiplier)) * int(2 * inner / 3))
        inner = -(-inner // step) * step
    return Mlp(inner)


def _halved(family: Family, fields: Fields, number: int) -> Mlp:
    """As wide as half of what is stated, which counts gate and input together (Qwen's modeling_qwen.py)."""
    return Mlp(fields.size("intermediate_size") // 2, bias=not fields.flag("no_bias", True))


def _longcat(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    """A layer is two of attention and a dense part each; experts stand beside the first's (arXiv:2509.01322).

    Of what the router chooses some give back what they get: of experts as many run as chance would have.
    """
    dense = fields.size("intermediate_size")
    if number % 2:
        return Mlp(dense)
    count, idle = fields.size("num_local_experts"), fields.count("zero_expert_num")
    return Experts(
        count=count,
        chosen=max(1, round(fields.size("num_experts_per_tok") * count / (count + idle))),
        inner=fields.size("moe_intermediate_size"),
        shared=dense,
        router_bias=fields.flag("router_bias"),
        idle=idle,
    )


def _gemma3n(family: Family, fields: Fields, number: int) -> Mlp:
    """As wide as the list by layer says, or all alike."""
    wide = fields.listed("intermediate_size", number)
    return Mlp(fields.size("intermediate_size") if wide is None else wide)


def _gemma4(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    wide = fields.flag("use_double_wide_mlp") and borrows(fields, number)
    inner = fields.size("intermediate_size") * (2 if wide else 1)
    if not fields.flag("enable_moe_block"):
        return Mlp(inner)
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("moe_intermediate_size"),
        shared=inner,  # the dense part, which every token passes too
    )


def _jamba(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    kind = fields.kind(number, ("mlp_layer_types",))
    dense = number % fields.size("expert_layer_period", 2) != fields.count("expert_layer_offset", 1)
    if dense if kind is None else kind == "dense":
        return Mlp(fields.size("intermediate_size"))
    return Experts(
        count=fields.size("num_local_experts", 16),
        chosen=fields.size("num_experts_per_tok", 2),
        inner=fields.size("intermediate_size"),
    )


def _granite(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    shared = fields.count("shared_intermediate_size", 1024 if family.mixer == "bamba" else 0)
    if not fields.count("num_local_experts"):
        return Mlp(fields.size("shared_intermediate_size", 1024))
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("intermediate_size"),
        shared=shared,
    )


def _ernie(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    inner, of_images = _two_inner(fields)
    fields = _of_text(fields)
    first = fields.count("first_k_dense_replace", 1)
    first, last = fields.count("moe_layer_start_index", first), fields.get("moe_layer_end_index")
    past = isinstance(last, int) and 0 <= last < number
    dense = number < first or past or (number + 1) % fields.size("moe_layer_interval", 1) > 0
    kind = fields.kind(number, ("mlp_layer_types",))
    if dense if kind is None else kind == "dense":
        return Mlp(fields.size("intermediate_size"), bias=fields.flag("use_bias"))
    inner = inner or fields.size("moe_intermediate_size")
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok", fields.size("moe_k", 6)),
        inner=inner,
        shared=inner * fields.count("n_shared_experts"),
        image_inner=of_images,
    )


def _of_text(fields: Fields) -> Fields:
    """A file's fields of experts of text, where it gives each for text and for images (ERNIE 4.5 VL's own)."""
    two = {
        k: v[0] for k, v in fields.values.items() if k.startswith("moe_") and isinstance(v, list) and len(v) == 2
    }
    made = Fields({**fields.values, **two}, fields.source)
    made.asked = fields.asked
    return made


def _two_inner(fields: Fields) -> tuple[int, int]:
    """Inner sizes of experts of text and, where the file gives two, of those of images; else 0.

    Raises:
        RooflabError: a list that is not of two sizes.
    """
    stated = fields.get("moe_intermediate_size")
    if not isinstance(stated, list):
        return fields.count("moe_intermediate_size"), 0
    if len(stated) != 2 or not all(isinstance(each, int) and each > 0 for each in stated):
        raise RooflabError(
            f"{fields.source}: moe_intermediate_size is {stated!r}, expected a size, or those of text and images"
        )
    return stated[0], stated[1]


def _hunyuan(family: Family, fields: Fields, number: int) -> Experts:
    def one(name: str, default: int) -> int:
        """A number, or the layer's of a list."""
        found = fields.get(name)
        return int(found[number] if isinstance(found, list) else found or default)

    inner = fields.size("intermediate_size")
    return Experts(
        count=one("num_local_experts", 1),
        chosen=one("num_experts_per_tok", 1),
        inner=one("moe_intermediate_size", inner),
        shared=inner * one("num_shared_expert", 1),
    )
