"""Records every operator that reaches PyTorch's dispatcher, with its tensors, module and source line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rooflab.types.work import Graph, Op, Phase
from rooflab.work.branches import costliest
from rooflab.work.capture.torch import failures, precision
from rooflab.work.capture.torch.kept import Keeper
from rooflab.work.capture.torch.places import ModuleStack, Site, line, site
from rooflab.work.capture.torch.plans import Plan, attributes, plan
from rooflab.work.capture.torch.recipes import RECIPES
from rooflab.work.capture.torch.results import Results
from rooflab.work.capture.torch.tensors import TensorTable, wrapped

_graph_task = torch._C._current_graph_task_id
_node = torch._C._current_autograd_node
_next_sequence = cast(Any, torch.autograd)._get_sequence_nr


class Recorder(TorchDispatchMode):
    """The operators of a run, in order.

    Attributes:
        table: the tensors they read and wrote.
        phase: that of operators outside of the autograd engine.
        conventions: of counting, that what was recorded calls for.
        assumed: how often a value that is not there was taken as if made of ones.
        choices: for each choice whose outcome is unknown, the operators of its branches, by position.
        count, branch: of operators in a loop's body, or in one branch of several.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        modules: ModuleStack,
        instead: Mapping[Any, Callable[..., Any]],
        *,
        like_gpu: bool = True,
        keeper: Keeper | None = None,
    ) -> None:
        super().__init__()
        self._like_gpu, self._keeper = like_gpu, keeper
        self.modules, self.table = modules, TensorTable()
        self.phase: Phase = "forward"
        self.count, self.branch = 1, None
        self.unknown: list[str] = []
        self.conventions: list[str] = []
        self.assumed = 0
        self.choices: list[list[range]] = []
        self.calls: list[tuple[Any, tuple, Mapping[str, Any], Any]] = []
        self._raw: list[tuple] = []
        self._plans: dict[Any, Plan] = {}
        self._instead = instead
        self._results = Results()
        self._attrs: dict[tuple, Mapping[str, Any]] = {}
        self._by_sequence: dict[int, tuple[str, Site | str | None]] = {}

    def unheard(self) -> Recorder:
        """A recorder of the same rules, whose records nobody reads."""
        return Recorder(self.modules, self._instead, like_gpu=self._like_gpu)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        """Run `func` and note what it read and wrote."""
        if types and any(map(wrapped, types)):
            return NotImplemented  # a tensor made of others: its own rules come first, in operators on those
        kwargs = kwargs or {}
        other = self._instead.get(func)
        if other is not None:
            result = other(self, func, args, kwargs)
            if result is not NotImplemented:
                return result
        how = self._plans.get(func) or self.plan(func)
        if not how.whole:  # a composite operator: only its parts count
            with self:
                return func.decompose(*args, **kwargs)
        try:
            out = self._results.call(func, args, kwargs) if how.repeatable else func(*args, **kwargs)
        except Exception as error:
            raise failures.failed(
                how.name, self.modules.path, line(self.modules.line or site()), args, error
            ) from error
        self.note(how, args, kwargs, out)
        if isinstance(out, (tuple, list)) or (
            isinstance(out, torch.Tensor) and out.is_meta
        ):  # costs no memory, and lets constants be found again
            self.calls.append((func, args, kwargs, out))
        return out

    def stepping(self, begun: bool) -> None:
        """Operators from here on are of an optimizer's step, or no longer."""
        self.phase = "optimizer" if begun else "forward"

    def plan(self, func: Any) -> Plan:
        """How `func` is recorded."""
        planned = self._plans.get(func)
        if planned is None:
            planned = self._plans[func] = plan(func)
        return planned

    def note(self, how: Plan, args: tuple, kwargs: Mapping[str, Any], out: Any) -> None:
        """Record one call of the operator planned as `how`."""
        inputs: list[int] = []
        outputs: list[int] = []
        take = self.table.take
        if how.inputs is None:
            for one in args:
                take(one, inputs)
            for name, one in kwargs.items():
                if name not in how.skip:
                    take(one, inputs)
        else:
            for position, name, default in how.inputs:
                take(args[position] if position < len(args) else kwargs.get(name, default), inputs)
        if how.outputs is None or not isinstance(out, (tuple, list)):
            take(out, outputs)
        else:
            for position in how.outputs:
                take(out[position], outputs)
        for position, name in how.written:
            written: list[int] = []
            take(args[position] if position < len(args) else kwargs.get(name), written)
            outputs.extend(one for one in written if one not in outputs)
        if self._keeper is not None:
            func = next((one for one, planned in self._plans.items() if planned is how), None)
            self._keeper.keep(func, args, kwargs, out)
        kind, attrs = how.kind, how.fixed
        if how.name in failures.ONE_DTYPE:
            failures.check_dtypes(how.name, self.modules.path, lambda: line(self.modules.line or site()), args)
        if kind == "matmul" and any(
            isinstance(one, torch.Tensor) and one.layout is not torch.strided for one in args
        ):
            kind, how = "sparse_matmul", how._replace(derived=(), fixed={}, recipe=RECIPES["sparse"])
        if self.table.hidden:  # of a layout of its own: better without a cost than with one of nothing
            kind, attrs, self.table.hidden = "opaque", {}, False
        elif how.own is not None:
            attrs = how.own(args, kwargs, out)
        elif how.derived or how.recipe is not None:
            attrs = attributes(how, args, kwargs, out)
            if how.recipe is not None:
                kind = attrs.pop("kind", kind)
                inputs = list(attrs.pop("inputs", inputs))[: attrs.pop("first_inputs", None)]
                outputs = outputs[: attrs.pop("first_outputs", None)]
                take(attrs.pop("more", None), inputs)
                take(attrs.pop("more_outputs", None), outputs)
            attrs = self._attrs.setdefault(tuple(attrs.items()), attrs)
        if self._like_gpu and kind in precision.KINDS and inputs and "compute" not in attrs:
            attrs = self._in_tf32(kind, inputs[0], attrs)
        phase, module, where = self._place()
        self._raw.append(
            (how.name, kind, tuple(inputs), tuple(outputs), attrs, module, where, phase, self.count, self.branch)
        )

    def _in_tf32(self, kind: str, first: int, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """`attrs` of a product, with its number format where that is TF32 for operands of fp32."""
        if self.table.dtypes[first] is not torch.float32 or not precision.tf32(kind):
            return attrs
        if precision.CONVENTION not in self.conventions:
            self.conventions.append(precision.CONVENTION)
        attrs = {**attrs, "compute": "tf32"}
        return self._attrs.setdefault(tuple(attrs.items()), attrs)

    def _place(self) -> tuple[Phase, str, Site | str | None]:
        """Phase, module and line of the operator that runs now; in backward, those of its forward operator."""
        if _graph_task() != -1:
            node = _node()
            forward_site = self._by_sequence.get(node._sequence_nr()) if node is not None else None
            if forward_site is not None:
                return "backward", *forward_site
            return "backward", self.modules.path, self.modules.line or site()
        place = self.modules.path, self.modules.line or site()
        if self.phase == "forward" and torch.is_grad_enabled():
            self._by_sequence.setdefault(_next_sequence() - 1, place)
        return self.phase, *place

    def __len__(self) -> int:
        """How many operators are recorded."""
        return len(self._raw)

    def graph(self, conventions: tuple[str, ...]) -> Graph:
        """All that was recorded."""
        lines: dict[Site | str | None, str | None] = {}
        ops = []
        for name, kind, inputs, outputs, attrs, module, where, phase, count, branch in self._raw:
            if where not in lines:
                lines[where] = line(where)
            ops.append(
                Op(
                    name=name,
                    kind=kind,
                    inputs=inputs,
                    outputs=outputs,
                    attrs=attrs,
                    module=module,
                    where=lines[where],
                    phase=phase,
                    count=count,
                    branch=branch,
                )
            )
        tensors = self.table.specs()
        if self.choices:
            ops = costliest(ops, tensors, self.choices, "torch")
        return Graph(
            framework="torch",
            tensors=tensors,
            ops=tuple(ops),
            unknown=tuple(self.unknown),
            conventions=(*conventions, *self.conventions),
        )
