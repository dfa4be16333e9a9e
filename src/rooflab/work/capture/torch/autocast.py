"""PyTorch's autocast for tensors that stand for a device's: the casts that its dispatcher would add there.

PyTorch casts where a tensor's own device has autocast on; meta tensors have none, and `torch.autocast("cuda")`
turns itself off where there is no GPU. While capturing, the kernels that the dispatcher keeps for autocast are
replaced by those of this file, which take any tensor of the program; its key is put in front of every operator as
that of a GPU's tensor would be. Which operator is cast how stands in autocast.toml.
"""

from __future__ import annotations

import contextlib
import functools
import tomllib
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any, cast

import torch

_C: Any = torch._C
_KEYS = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}
_STAND_INS = ("meta", "cpu")  # where tensors lie that stand for those of the device
_SWITCHES = ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")


@functools.cache
def lists(device: str) -> Mapping[str, tuple[str, ...]]:
    """How operators are cast on `device`: "lower", "fp32", … → their names."""
    text = resources.files("rooflab.work.capture.torch").joinpath("autocast.toml").read_text(encoding="utf-8")
    return {how: tuple(names.split()) for how, names in tomllib.loads(text)[device].items()}


@contextlib.contextmanager
def installed(device: str) -> Iterator[None]:
    """Let autocast act on the program's tensors as it would on those of `device`; put everything back after.

    A program that names the device of its tensors ("meta", "cpu" for a GPU's) means the one they stand for.
    """
    device = device if device in _KEYS else "cuda"
    rules = _Rules(device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_answers(device, rules))
        stack.callback(rules.remove)
        stack.enter_context(_C._IncludeDispatchKeyGuard(getattr(_C.DispatchKey, _KEYS[device])))
        yield


class _Rules:
    """The kernels of autocast, put in when a program first turns it on, and the weights it has cast."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._key = _C.DispatchKeySet(getattr(_C.DispatchKey, _KEYS[device]))
        self._library: torch.library.Library | None = None
        self._weights: dict[int, tuple[Any, torch.Tensor]] = {}

    def install(self) -> None:
        if self._library is not None:
            return
        self._library = torch.library.Library("aten", "IMPL")
        makers = {
            "lower": self._lower,
            "fp32": self._fp32,
            "fp32_result": self._fp32_result,
            "fp32_overload": self._fp32_overload,
            "widest": self._widest,
        }
        with warnings.catch_warnings():
            # PyTorch warns, once a process, of a kernel that takes the place of another.
            warnings.simplefilter("ignore", UserWarning)
            for how, maker in makers.items():
                for name in lists(self._device)[how]:
                    packet, _, overload = name.partition(".")
                    op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
                    if op is not None:  # the lists of other versions of PyTorch differ by a few
                        self._library.impl(name, maker(op), _KEYS[self._device], allow_override=True)

    def remove(self) -> None:
        if self._library is not None:
            self._library._destroy()

    def forget(self) -> None:
        """Drop the cast weights, as at the end of the outermost autocast."""
        self._weights.clear()

    def eligible(self, value: Any) -> bool:
        """Whether `value` is cast at all: a floating tensor of the device or one standing for it, not of fp64."""
        return (
            isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and value.dtype is not torch.float64
            and value.device.type in (*_STAND_INS, self._device)
        )

    def _outside(self) -> Any:
        """Within an operator that was cast, nothing is cast again."""
        return _C._ExcludeDispatchKeyGuard(self._key)

    def _lower(self, op: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            dtype = torch.get_autocast_dtype(self._device)
            with self._outside():
                return op(*self.to(args, dtype), **self.to(kwargs, dtype))

        return run

    def _fp32(self, op: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._outside():
                return op(*self.to(args, torch.float32), **self.to(kwargs, torch.float32))

        return run

    def _fp32_result(self, op: Any) -> Callable[..., Any]:
        names = [one.name for one in op._schema.arguments]
        place = names.index("dtype")

        def run(*args: Any, **kwargs: Any) -> Any:
            given = args[place] if place < len(args) else kwargs.get("dtype")
            first = args[0] if args else next(iter(kwargs.values()))
            with self._outside():
                if given is None and self.eligible(first):
                    kwargs = {**kwargs, "dtype": torch.float32}
                    args = args[:place]
                return op(*args, **kwargs)

        return run

    def _fp32_overload(self, op: Any) -> Callable[..., Any]:
        packet = op.overloadpacket
        names = [one.name for one in op._schema.arguments]
        wide = packet.ScalarOpt_dim_dtype if "dim" in names else packet.ScalarOpt_dtype
        defaults = [one.default_value if one.has_default_value() else None for one in op._schema.arguments]

        def run(*args: Any, **kwargs: Any) -> Any:
            with self._outside():
                if not self.eligible(args[0]):
                    return op(*args, **kwargs)
                rest = [kwargs.get(name, default) for name, default in zip(names, defaults, strict=True)]
                return wide(*args, *rest[len(args) :], dtype=torch.float32)

        return run

    def _widest(self, op: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            wide = torch.float32 in self._formats((args, tuple(kwargs.values())))
            dtype = torch.float32 if wide else torch.get_autocast_dtype(self._device)
            with self._outside():
                return op(*self.to(args, dtype), **self.to(kwargs, dtype))

        return run

    def _formats(self, value: Any) -> set[torch.dtype]:
        if isinstance(value, (list, tuple)):
            return set().union(*map(self._formats, value))
        return {value.dtype} if self.eligible(value) else set()

    def to(self, value: Any, dtype: torch.dtype) -> Any:
        """`value` with its floating tensors cast; weights that were cast before in this autocast are known."""
        if isinstance(value, (list, tuple)):
            return type(value)([self.to(one, dtype) for one in value])
        if isinstance(value, dict):
            return {name: self.to(one, dtype) for name, one in value.items()}
        if not self.eligible(value) or value.dtype is dtype:
            return value
        # As cached_cast in aten/src/ATen/autocast_mode.cpp: fp32 leaves that ask for a gradient are kept.
        keep = (
            torch.is_autocast_cache_enabled()
            and dtype == torch.get_autocast_dtype(self._device)
            and value.dtype is torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
        )
        if not keep:
            return value.to(dtype)
        kept = self._weights.get(id(value))
        if kept is None or kept[0]() is not value:
            kept = self._weights[id(value)] = (weakref.ref(value), value.to(dtype))
        return kept[1]


@contextlib.contextmanager
def _answers(device: str, rules: _Rules) -> Iterator[None]:
    """What PyTorch says of autocast while capturing: there is such a device; its stand-ins mean it."""
    mode: Any = torch.amp.autocast_mode

    def meant(name: str) -> str:
        return device if name in _STAND_INS else name

    def switch(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda name="cuda", *rest: original(meant(name), *rest)

    enable, clear, cast_all = torch.set_autocast_enabled, torch.clear_autocast_cache, mode._cast

    def set_enabled(*args: Any) -> None:
        # Either (device, enabled) or, as before PyTorch 2.4, (enabled) for a GPU.
        name, enabled = args if len(args) == 2 else ("cuda", args[0])
        if enabled and meant(name) == device:
            rules.install()
        enable(meant(name), enabled)

    def forget() -> None:
        rules.forget()
        clear()

    def cast_stand_ins(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        if isinstance(value, torch.Tensor) and meant(device_type) == device:
            return value.to(dtype) if rules.eligible(value) else value
        return cast_all(value, device_type, dtype)

    available = mode.is_autocast_available
    changes: list[tuple[Any, str, Any]] = [
        *((torch, name, switch(getattr(torch, name))) for name in _SWITCHES),
        (torch, "set_autocast_enabled", set_enabled),
        (torch, "clear_autocast_cache", forget),
        (mode, "is_autocast_available", lambda name: available(meant(name))),
        (mode, "_cast", cast_stand_ins),
    ]
    if device == "cuda" and not torch.cuda.is_available():
        common: Any = torch.cuda.amp.common
        changes += [
            (common, "amp_definitely_not_available", lambda: False),
            (torch.cuda, "is_bf16_supported", lambda *_, **__: True),
        ]
    before = [(where, name, getattr(where, name)) for where, name, _ in changes]
    for where, name, value in changes:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, cast(Any, value))
