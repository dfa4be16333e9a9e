"""Programs of several ranks: what one rank computes and sends. DTensor, DDP, FSDP, collectives of every sort."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from rooflab.types.work import Graph, Op

# Modules that talk to other ranks in hooks on the gradients of their parameters, by class and where it lies.
_HOOKED = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel"),
    ("torch.distributed.fsdp", "FSDPModule"),
    ("torch.distributed.fsdp", "FullyShardedDataParallel"),
)
# Where DTensor runs an operator on tensors of the whole mesh's shapes, to learn the shape of its result.
_SHAPES_ONLY = (
    ("torch.distributed.tensor._sharding_prop", "ShardingPropagator", "_propagate_tensor_meta_non_cached"),
    ("torch.distributed.tensor._decompositions", "DecompShardingStrategy", "propagate_strategy"),
)


@contextlib.contextmanager
def one_rank() -> Iterator[None]:
    """Record what this rank computes alone: not what DTensor tries out on global shapes, once for each shape."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for module, holder, name in _SHAPES_ONLY:
                owner = _attribute(module, holder)
                method = getattr(owner, name, None)
                if method is not None:
                    undo.append((owner, name, method))
                    setattr(owner, name, _unheard(method))
        yield
    finally:
        for owner, name, method in undo:
            setattr(owner, name, method)


def _unheard(method: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return method(*args, **kwargs)

    return run


def _attribute(module: str, name: str) -> Any:
    """`name` of `module`; None in versions of PyTorch without it."""
    with contextlib.suppress(ImportError):
        return getattr(__import__(module, fromlist=[name]), name, None)
    return None


def hooked(modules: Mapping[str, nn.Module]) -> str | None:
    """The class of a module among `modules` whose hooks exchange gradients; None without one."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    classes = [found for module, name in _HOOKED if (found := _attribute(module, name)) is not None]
    for module in modules.values():
        for one in module.modules():
            for cls in classes:
                if isinstance(one, cls):
                    return str(cls.__name__)
    return None


def settle(modules: Mapping[str, nn.Module]) -> None:
    """Let DDP sort its buckets now, as once before the second pass: its broadcasts of sizes are no work."""
    for module in modules.values():
        for one in module.modules():
            rebuild = getattr(getattr(one, "reducer", None), "_rebuild_buckets", None)
            if rebuild is not None:
                rebuild()


def group_size(group: Any) -> int:
    """Ranks of a process group: itself, boxed by the dispatcher, or its name."""
    return int(_group(group).size())


def _group(group: Any) -> Any:
    from torch._C._distributed_c10d import ProcessGroup, _resolve_process_group

    if isinstance(group, torch.ScriptObject):
        return ProcessGroup.unbox(group)
    return group if isinstance(group, ProcessGroup) else _resolve_process_group(group)


def all_reduced(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """An all-reduce by PyTorch's fake backend, done when it returns: its own has no result that DDP could use."""
    group = _group(args[1])
    c10d: Any = _attribute("torch._C", "_distributed_c10d")
    first = args[0][0]
    if first.is_meta or not isinstance(group._get_backend(first.device), c10d.FakeProcessGroup):
        return NotImplemented
    out = func(*args, **kwargs)
    recorder.note(recorder.plan(func), args, kwargs, out)
    done: torch.futures.Future[Any] = torch.futures.Future()
    done.set_result(list(args[0]))
    return out[0], c10d._create_work_from_future(done).boxed()


def told(graph: Graph, hooks: str | None) -> Graph:
    """`graph` with what is to be said of its collectives.

    Each says whether it is asynchronous: those of c10d by their own argument, functional ones by whether anything
    else runs before they are waited for.

    Args:
        graph: as recorded.
        hooks: class of a module whose backward pass, recorded too, should exchange gradients; None for none.
    """
    if hooks is None and not any(op.kind == "collective" for op in graph.ops):
        return graph
    beside = _worked_beside(graph)
    ops = tuple(
        msgspec.structs.replace(op, attrs={**op.attrs, "asynchronous": number in beside or _asked(op)})
        if op.kind == "collective"
        else op
        for number, op in enumerate(graph.ops)
    )
    collectives = [op for op in ops if op.kind == "collective"]
    conventions, unknown = list(graph.conventions), list(graph.unknown)
    if collectives:
        asynchronous = sum(map(_asked, collectives))
        conventions.append(
            f"ranks: FLOP, bytes and memory are those of one rank; {asynchronous} of its {len(collectives)}"
            " collectives may run beside other work, and a predicted total adds them as if none did"
        )
    if hooks is not None and not any(op.phase == "backward" for op in collectives):
        unknown.append(f"{hooks}: no exchange of gradients was seen in its backward pass")
    return msgspec.structs.replace(graph, ops=ops, conventions=tuple(conventions), unknown=tuple(unknown))


def _asked(op: Op) -> bool:
    return bool(op.attrs.get("asynchronous"))


def _worked_beside(graph: Graph) -> set[int]:
    """Collectives, by position, of FSDP, and those between whose beginning and whose wait something else runs."""
    storages = [one.storage for one in graph.tensors]
    begun: dict[int, int] = {}  # what a functional collective gives → its position
    beside: set[int] = set()
    buffers: set[int] = set()  # of FSDP, which exchanges them on streams of their own
    for number, op in enumerate(graph.ops):
        if op.name.startswith("fsdp."):
            buffers.update(storages[one] for one in op.outputs)
        if op.kind == "collective":
            if buffers.intersection(storages[one] for one in op.inputs):
                beside.add(number)
            if "asynchronous" not in op.attrs:
                begun.update(dict.fromkeys(op.outputs, number))
        elif op.name.endswith(".wait_tensor"):
            for one in op.inputs:
                begun.pop(one, None)
        elif op.kind != "view":
            beside.update(begun.values())
    return beside
