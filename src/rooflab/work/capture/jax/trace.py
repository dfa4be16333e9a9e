"""From a function and its arguments to a `Graph`: arguments, derivatives, roles, errors."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rooflab.errors import MissingExtraError, RooflabError, UnknownNameError
from rooflab.types.work import Graph, Role
from rooflab.work.capture.jax import control  # noqa: F401  (loops and branches join the walk's rules)
from rooflab.work.capture.jax.record import Recorder, Scope, Value, user_line
from rooflab.work.capture.jax.walk import walk

# Names of arguments that hold what is learnt, and of those kept from step to step.
_PARAMETERS = re.compile(r"^(params?|parameters|weights|variables|model|module|kernel|theta|state_dict)$", re.I)
_STATES = re.compile(r"^(opt_?state|optimi[sz]er(_state)?|state)$", re.I)

CONVENTIONS = (
    "bytes: as the program is written, before a backend widens number formats or fuses",
    "broadcasts, transposes, reshapes, slices and counters are read where they are used: no bytes of their own,"
    " unless they are a result that must be written",
    "cond: the costliest branch counts, the others have a count of 0; lax.platform_dependent: that of the platform"
    " JAX runs on here",
    "jax.nn.dot_product_attention: its products and softmax each apart, a causal mask computed in full",
)


class Leaf(NamedTuple):
    """An array among the arguments: its place, its name, its shape and format, its role."""

    place: int
    name: str
    spec: Any
    role: Role


def capture(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    trips: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of work of a JAX function, traced and not run.

    Arrays (jax, NumPy, jax.ShapeDtypeStruct) may lie anywhere in the arguments; only their shapes and
    formats are read. Everything else (Python numbers, strings, functions) is given to `fn` as it is.

    Args:
        fn: any function that jax.jit could compile, transformed by grad, vmap, jit or checkpoint or not.
        args, kwargs: what it is called with.
        backward: count jax.value_and_grad of the sum of its floating-point results too, with respect to
            the parameters: arguments called params, weights, variables, model …, else arrays that `fn`
            closes over, else all floating-point inputs.
        trips: how often while loops run that cannot be counted, by name: "while 1" (the first one met),
            "file.py:12", or the named scope around it.

    Raises:
        MissingExtraError: JAX is not installed.
        RooflabError: `fn` needs the values of its inputs, does not accept them, or fails.
        UnknownNameError: a name in `trips` that no while loop has.
    """
    jax = _library()
    leaves, rebuild = _arguments(jax, fn, args, dict(kwargs or {}))
    wanted = "its argument" if len(leaves) == 1 else "its arguments"

    def flat(*arrays: Any) -> list[Any]:
        positional, named = rebuild(arrays)
        results = jax.tree_util.tree_leaves(fn(*positional, **named))
        return [one for one in results if hasattr(one, "dtype") or isinstance(one, (int, float, complex))]

    closed = _traced(jax, fn, wanted, flat, [leaf.spec for leaf in leaves])
    has_parameters = any(leaf.role == "parameter" for leaf in leaves)
    conventions, grads = CONVENTIONS, ()
    if backward:
        closed, grads, kept = _differentiated(jax, fn, closed, leaves, has_parameters)
        conventions = (*CONVENTIONS, f"backward: gradients of {_some(grads)}, of the sum of the results")
        leaves = [*kept, *leaves]
    rec = Recorder(
        trips or {}, constant_role="constant" if has_parameters else "parameter", names=_closed_over(jax, fn)
    )
    inner = jax.interpreters.partial_eval.dce_jaxpr(
        closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True
    )[0]
    inputs = [
        Value(rec.tensor(var.aval, role=leaf.role, name=leaf.name))
        for var, leaf in zip(inner.invars, leaves, strict=True)
    ]
    results = walk(rec, closed.replace(jaxpr=inner), inputs, Scope(), leaving=_variables(inner.outvars))
    _name_gradients(rec, grads, results[len(results) - len(grads) :])
    _check_trips(rec)
    return Graph(
        framework="jax",
        tensors=tuple(rec.tensors),
        ops=tuple(rec.ops),
        unknown=tuple(dict.fromkeys(rec.unknown)),
        conventions=conventions,
    )


def _name_gradients(rec: Recorder, names: Sequence[str], values: Sequence[Value]) -> None:
    """Call each result that is a gradient by what it is one of."""
    for name, value in zip(names, values, strict=True):
        if value.tensor is not None and rec.tensors[value.tensor].role == "activation":
            rec.rename(value.tensor, role="gradient", name=name)


def _check_trips(rec: Recorder) -> None:
    """Refuse trips of a loop that was not met."""
    for name in rec.trips:
        if not any(name in (*loop, str(number)) for number, loop in enumerate(rec.loops, 1)):
            names = [one for loop in rec.loops for one in loop if one]
            raise UnknownNameError("while loop", name, names, "in trips")


def _library() -> Any:
    try:
        jax = importlib.import_module("jax")
        importlib.import_module("jax.interpreters.partial_eval")
    except ImportError:
        raise MissingExtraError("JAX", "jax", "counting the work of a JAX function") from None
    return jax


def _variables(atoms: Sequence[Any]) -> set[Any]:
    return {atom for atom in atoms if not hasattr(atom, "val")}


def _arguments(jax: Any, fn: Any, args: Sequence[Any], kwargs: dict[str, Any]):
    """The arrays among the arguments, and a function that puts traced ones back in their places."""
    paths, tree = jax.tree_util.tree_flatten_with_path((tuple(args), kwargs))
    names = _argument_names(fn, len(args))
    leaves, statics = [], []
    for place, (path, leaf) in enumerate(paths):
        statics.append(leaf)
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            continue
        steps = [_step(key) for key in path[1:]]
        if path[0].idx == 0:
            number = int(steps[0])
            holder, steps[0] = args[number], names[number]
        else:
            holder = kwargs[steps[0]]
        leaves.append(Leaf(place, ".".join(steps), _spec(jax, leaf), _role(steps, holder)))

    def rebuild(arrays: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
        full = list(statics)
        for leaf, array in zip(leaves, arrays, strict=True):
            full[leaf.place] = array
        return jax.tree_util.tree_unflatten(tree, full)

    return leaves, rebuild


def _spec(jax: Any, leaf: Any) -> Any:
    dtype = leaf.dtype
    if not jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        dtype = jax.dtypes.canonicalize_dtype(dtype)  # float64 is float32 unless jax_enable_x64 is set
    return jax.ShapeDtypeStruct(leaf.shape, dtype)


def _argument_names(fn: Any, count: int) -> list[str]:
    """What `fn` calls its first `count` arguments."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    names = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"args[{i}]" for i in range(count)]


def _role(steps: Sequence[str], holder: Any) -> Role:
    """What an argument is to the program, by its name, or as a leaf of a model that can be called."""
    if any(_PARAMETERS.match(step) for step in steps) or (callable(holder) and not hasattr(holder, "dtype")):
        return "parameter"
    return "state" if any(_STATES.match(step) for step in steps) else "input"


def _closed_over(jax: Any, fn: Any) -> dict[int, str]:
    """Names of the arrays that `fn` is made of or closes over, by their identity."""
    holders = [("", getattr(fn, "__self__", fn))]
    plain = getattr(fn, "__wrapped__", fn)
    if inspect.isfunction(plain):
        seen = inspect.getclosurevars(plain)
        holders += [*seen.nonlocals.items(), *seen.globals.items()]
    names: dict[int, str] = {}
    for name, holder in holders:
        for path, leaf in jax.tree_util.tree_flatten_with_path(holder)[0]:
            if isinstance(leaf, jax.Array):
                names.setdefault(id(leaf), ".".join([name] * bool(name) + [_step(key) for key in path]))
    return names


def _step(key: Any) -> str:
    """One step of a path into nested containers."""
    return str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))


def _differentiated(jax: Any, fn: Any, closed: Any, leaves: Sequence[Leaf], has_parameters: bool):
    """The jaxpr of value and gradients, the names of what is differentiated, the constants that became inputs."""
    floating = jax.numpy.floating
    names = _closed_over(jax, fn)
    constants = [Leaf(-1, names.get(id(x), f"constant {i}"), x, "parameter") for i, x in enumerate(closed.consts)]

    def real(x: Any) -> bool:
        return jax.dtypes.issubdtype(x.dtype, floating) and not jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended)

    if has_parameters:
        chosen = [leaf for leaf in leaves if leaf.role == "parameter" and real(leaf.spec)]
        constants = []
    else:
        constants = [leaf for leaf in constants if len(leaf.spec.shape) > 0 and real(leaf.spec)]
        chosen = constants or [leaf for leaf in leaves if real(leaf.spec)]
    if not any(real(var.aval) for var in closed.jaxpr.outvars):
        raise RooflabError(
            f"{_name(fn)}: backward=True, but no result is floating-point; nothing to differentiate"
        )
    if not chosen:
        raise RooflabError(f"{_name(fn)}: backward=True, but no input is floating-point; nothing to differentiate")
    moved = {id(leaf.spec) for leaf in constants}
    every = [*constants, *leaves]
    at = [index for index, leaf in enumerate(every) if any(leaf is one for one in chosen)]

    def summed(*arrays: Any) -> Any:
        lifted = iter(arrays[: len(constants)])
        consts = [next(lifted) if id(const) in moved else const for const in closed.consts]
        results = jax.core.eval_jaxpr(closed.jaxpr, consts, *arrays[len(constants) :])
        totals = [x.sum() if x.shape else x for x in results if real(x)]
        return functools.reduce(lambda total, x: total + x, totals)

    specs = [_spec(jax, leaf.spec) for leaf in every]
    grad = jax.value_and_grad(summed, tuple(at))
    traced = _traced(jax, fn, "its gradient", grad, specs)
    return traced, tuple(leaf.name for leaf in chosen), constants


def _traced(jax: Any, fn: Any, wanted: str, call: Callable[..., Any], specs: Sequence[Any]) -> Any:
    """The jaxpr of `call`, JAX's errors in one line."""
    try:
        return jax.make_jaxpr(call)(*specs)
    except RooflabError:
        raise
    except Exception as error:
        where = user_line(
            (frame.filename, frame.lineno) for frame in reversed(traceback.extract_tb(error.__traceback__))
        )
        place = f" at {where}" if where else ""
        data = (
            jax.errors.ConcretizationTypeError,
            jax.errors.TracerArrayConversionError,
            jax.errors.TracerIntegerConversionError,
            jax.errors.NonConcreteBooleanIndexError,
        )
        if isinstance(error, data) or _STATIC.search(str(error)):
            raise RooflabError(
                f"{_name(fn)} needs real data{place}: {_need(error)}; only shapes are known: use jax.lax.cond,"
                " jax.numpy.where or a size fixed beforehand, or pass the value as a Python number"
            ) from error
        text = " ".join(str(error).split()) or "no message"
        text = text.partition(" The error occurred while")[0].partition(" If using `jit`")[0]
        text = text if len(text) <= 300 else text[:297] + "..."
        raise RooflabError(
            f"{_name(fn)} could not be traced with {wanted}{place}: {type(error).__name__}: {text}"
        ) from error


# What JAX says where a size or an index must be a number.
_STATIC = re.compile(r"concrete values|must be static|static integers")


def _need(error: Exception) -> str:
    """What a traced value was wanted for, in a few words."""
    return {
        "TracerBoolConversionError": "a Python `if` or `while` asks for the truth of an array",
        "TracerArrayConversionError": "an array is converted to NumPy",
        "TracerIntegerConversionError": "an array is used as a Python integer",
        "NonConcreteBooleanIndexError": "a boolean mask makes a shape depend on data",
    }.get(
        type(error).__name__, "an array's value is asked for (item, float, int, or a shape that depends on data)"
    )


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    head = ", ".join(names[:4])
    return head if len(names) <= 4 else f"{head} and {len(names) - 4} more"
