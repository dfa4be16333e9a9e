"""A graph of a language model in the making: tensors by what they are, operations in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rooflab.dtypes import dtype as number_format
from rooflab.types.work import Op, TensorSpec
from rooflab.work.llm.formats import WeightFormat
from rooflab.work.llm.precision import Precision

# An element turned: times a cosine, its partner times a sine, and the sum.
_ROPE = {"vector": 3, "special": 0}


class Maker:
    """A graph in the making; each weight is a tensor of its own."""

    def __init__(
        self, precision: Precision, sequences: int, new: int, before: int, joined: bool, adapters: int
    ) -> None:
        self.precision, self.joined, self.adapters = precision, joined, adapters
        self.sequences, self.new, self.before = sequences, new, before
        self.tensors: list[TensorSpec] = []
        self.ops: list[Op] = []

    @property
    def tokens(self) -> int:
        """New ones of all sequences."""
        return self.sequences * self.new

    def tensor(
        self,
        shape: tuple[int, ...],
        dtype: str,
        *,
        storage: int = -1,
        role: Any = "activation",
        name: str | None = None,
        nbytes: float | None = None,
    ) -> int:
        """A tensor's place; memory of its own where no `storage` says otherwise."""
        count = 1
        for each in shape:
            count *= each
        nbytes = count * number_format(dtype).bits / 8 if nbytes is None else nbytes
        storage = len(self.tensors) if storage < 0 else storage
        self.tensors.append(TensorSpec(shape, dtype, nbytes, storage=storage, role=role, name=name))
        return len(self.tensors) - 1

    def weight(self, shape: tuple[int, ...], form: WeightFormat, name: str) -> int:
        """A parameter stored in `form`, its scales included."""
        count = 1
        for each in shape:
            count *= each
        return self.tensor(shape, _stored_dtype(form), role="parameter", name=name, nbytes=count * form.nbytes)

    def op(
        self,
        name: str,
        kind: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        *,
        module: str = "",
        **attrs: Any,
    ) -> None:
        """One operation."""
        self.ops.append(Op(name=name, kind=kind, inputs=inputs, outputs=outputs, module=module, attrs=attrs))

    def product(
        self, x: int, weight: int, rows: int, n: int, k: int, module: str, form: WeightFormat, bias: bool = False
    ) -> int:
        """X (rows, k) times a weight (k, n), and a bias."""
        out = self.tensor((rows, n), "bf16")
        attrs: dict[str, Any] = {"k": k}
        if _stored_dtype(form) != "bf16" or form.multiplies != "bf16":
            attrs |= {"compute": form.multiplies, "weight_bits": form.bits}
        inputs = (x, weight)
        if bias:
            inputs = (x, weight, self.weight((n,), self.precision.embedding, f"{module}.bias"))
            attrs["bias"] = True
        self.op("linear", "matmul", inputs, (out,), module=module, **attrs)
        return out

    def linear(
        self, x: int, rows: int, widths: Sequence[int], k: int, module: str, form: WeightFormat, bias: bool = False
    ) -> list[int]:
        """X times several weights, one by one or joined, each with its adapter."""
        widths = [sum(widths)] if self.joined else [each for each in widths if each]
        outs = []
        for number, n in enumerate(widths):
            name = module if len(widths) == 1 else f"{module}.{number}"
            outs.append(self.product(x, self.weight((k, n), form, name), rows, n, k, name, form, bias))
            if self.adapters:
                half = self.precision.embedding
                down = self.product(
                    x,
                    self.weight((k, self.adapters), half, f"{name}.a"),
                    rows,
                    self.adapters,
                    k,
                    f"{name}.adapter",
                    half,
                )
                self.product(
                    down,
                    self.weight((self.adapters, n), half, f"{name}.b"),
                    rows,
                    n,
                    self.adapters,
                    f"{name}.adapter",
                    half,
                )
        return outs

    def norm(self, x: int, width: int, layer_norm: bool, module: str) -> int:
        """LayerNorm or RMSNorm with weights over the last `width` elements."""
        spec = self.tensors[x]
        out = self.tensor(spec.shape, spec.dtype)
        weights = [self.weight((width,), self.precision.embedding, module)]
        if layer_norm:
            weights.append(self.weight((width,), self.precision.embedding, f"{module}.bias"))
        function = "layer" if layer_norm else "rms"
        self.op(f"{function}_norm", "norm", (x, *weights), (out,), module=module, function=function)
        return out

    def pointwise(self, name: str, inputs: tuple[int, ...], module: str) -> int:
        """An element-wise function of tensors of one shape."""
        spec = self.tensors[inputs[0]]
        out = self.tensor(spec.shape, spec.dtype)
        self.op(
            name, "pointwise", inputs, (out,), module=module, **(_ROPE if name == "rope" else {"function": name})
        )
        return out

    def attend(
        self,
        heads: int,
        kv_heads: int,
        size: int,
        values: int,
        window: int,
        causal: bool,
        module: str,
        keys: int | None = None,
        kept: bool = True,
        v_in_k: bool = False,
    ) -> int:
        """Fused attention of the new tokens to all before them, or to so many other `keys`.

        `kept`: in the cache; `v_in_k`: whether the keys are the values too.
        """
        cached = "fp8" if self.precision.cache in ("fp8", "int8") and self.before else "bf16"
        count = self.before + self.new if keys is None else keys
        q = self.tensor((self.sequences, heads, self.new, size), "bf16")
        names = (f"{module}.k_cache", f"{module}.v_cache") if kept else (None, None)
        k = self.tensor((self.sequences, kv_heads, count, size), cached, role="buffer", name=names[0])
        storage = self.tensors[k].storage if v_in_k else -1
        shape = (self.sequences, kv_heads, count, values)
        v = self.tensor(shape, cached, storage=storage, role="buffer", name=names[1])
        out = self.tensor((self.sequences, heads, self.new, values), "bf16")
        attrs: dict[str, Any] = {"causal": True, "causal_from": "bottom_right"} if causal and keys is None else {}
        if window and window < count:
            attrs["window"] = window
        if v_in_k:
            attrs["v_in_k"] = True
        self.op("attention", "attention", (q, k, v), (out,), module=module, **attrs)
        return out


def _stored_dtype(form: WeightFormat) -> str:
    """The number format of `dtypes` nearest to what a weight is stored in: its bytes are said apart."""
    if form.bits >= 16:
        return {"fp32": "fp32", "fp16": "fp16", "f16": "fp16"}.get(form.name, "bf16")
    return "fp8" if form.multiplies == "fp8" and form.bits >= 8 else "int8" if form.bits > 5 else "int4"
