"""Reductions, softmax and scans: many elements to one, or each to the sum before it."""

from __future__ import annotations

from rooflab.errors import UnknownNameError
from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import (
    compute_dtype,
    cost_of,
    is_complex,
    item_bytes,
    scalar_flop,
    total_bytes,
)
from rooflab.work.formulas.registry import Attrs, Specs, formula

# function: operations per input element (vector, special), then per output element (vector, special).
# A sum begins at 0, a maximum at −∞: one operation per input element.
REDUCTIONS: dict[str, tuple[int, int, int, int]] = {
    "sum": (1, 0, 0, 0),
    "nansum": (2, 0, 0, 0),  # a comparison too
    "mean": (1, 0, 1, 0),  # one multiplication by 1/n
    "prod": (1, 0, 0, 0),
    "max": (1, 0, 0, 0),
    "min": (1, 0, 0, 0),
    "argmax": (1, 0, 0, 0),
    "argmin": (1, 0, 0, 0),
    "aminmax": (2, 0, 0, 0),
    "any": (0, 0, 0, 0),  # logic
    "all": (0, 0, 0, 0),
    "count_nonzero": (1, 0, 0, 0),  # the comparison; the counter is an integer
    "var": (4, 0, 2, 0),  # two passes: sum; subtract, square, add; a multiplication for each mean
    "std": (4, 0, 2, 1),
    "var_mean": (4, 0, 2, 0),
    "std_mean": (4, 0, 2, 1),
    "norm": (2, 0, 0, 1),  # sqrt(sum(x·x))
    "norm1": (2, 0, 0, 0),  # sum(|x|)
    "norm_inf": (2, 0, 0, 0),  # max(|x|)
    "norm_p": (3, 2, 1, 2),  # sum(exp(p·log|x|))^(1/p)
    "sum_of_squares": (2, 0, 0, 0),
    "log_sum": (1, 0, 0, 1),
    "logsumexp": (3, 1, 1, 1),  # max; subtract, exp, add; log and the maximum added again
}

# Of complex numbers, in real operations; others have no order or no meaning.
COMPLEX_REDUCTIONS: dict[str, tuple[int, int, int, int]] = {
    "sum": (2, 0, 0, 0),
    "nansum": (4, 0, 0, 0),
    "mean": (2, 0, 2, 0),
    "prod": (6, 0, 0, 0),
    "any": (0, 0, 0, 0),
    "all": (0, 0, 0, 0),
    "count_nonzero": (2, 0, 0, 0),
    "var": (8, 0, 3, 0),  # sum 2; subtract 2, |d|² 3, add 1; the means 2 and 1
    "std": (8, 0, 3, 1),
    "var_mean": (8, 0, 3, 0),
    "std_mean": (8, 0, 3, 1),
    "norm": (4, 0, 0, 1),  # |z|² 3, add 1
    "norm1": (4, 1, 0, 0),  # |z| 3 and a root, add 1
    "sum_of_squares": (4, 0, 0, 0),
}
# (vector, special) per element; of complex numbers.
SCANS: dict[str, tuple[int, int]] = {
    "cumsum": (1, 0),
    "cumprod": (1, 0),
    "cummax": (1, 0),
    "cummin": (1, 0),
    "logcumsumexp": (6, 2),  # logaddexp of the sum so far and x
    "associative": (2, 0),
}
COMPLEX_SCANS: dict[str, tuple[int, int]] = {"cumsum": (2, 0), "cumprod": (6, 0), "associative": (8, 0)}


@formula("reduction")
def reduction(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of reducing a tensor along dimensions: input read once, result (and indices) written once.

    FLOP from the tables `REDUCTIONS` and `COMPLEX_REDUCTIONS`, per input and per output element.
    Accessed bytes: each input element once per pass (var: two passes), each output once.

    Args:
        inputs: x. outputs: y[, indices].
        attrs: function, a name of the table; foreach: each input has its own output (default: several
            inputs and as many outputs); elements: of the input that are reduced, where not all (a trace).

    Raises:
        UnknownNameError: a function that the table does not have.
    """
    name, x = attrs["function"], inputs[0]
    table = COMPLEX_REDUCTIONS if is_complex(x) else REDUCTIONS
    if name not in table:
        raise UnknownNameError("reduction", name, table)
    apart = attrs.get("foreach", len(inputs) > 1 and len(outputs) == len(inputs))
    before, after = inputs[: len(inputs) if apart else 1], outputs[: len(outputs) if apart else 1]
    elements, results = (sum(spec.elements for spec in specs) for specs in (before, after))
    part = attrs.get("elements")
    elements = elements if part is None else part
    vector_in, special_in, vector_out, special_out = table[name]
    flop = scalar_flop(
        compute_dtype((x,), ()),
        vector_in * elements + vector_out * results,
        special_in * elements + special_out * results,
    )
    passes = 2 if name.startswith(("var", "std", "logsumexp")) else 1
    if part is not None:
        read = part * item_bytes(x)
        return cost_of(
            flop, read=read, write=total_bytes(outputs), loaded=read, access="strided", note="a part reduced"
        )
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=sum(passes * spec.elements * item_bytes(spec) for spec in before)
        + total_bytes(inputs[len(before) :]),
        note="one operation per input element; a sum begins at 0",
    )


@formula("softmax")
def softmax(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of exp(x − max) / sum, fused: x read once, y written once.

    Per element: max, subtract, add (vector), exp and a division (special); log-softmax subtracts the
    logarithm of the sum in place of the division. Accessed bytes: three passes over x (maximum, sum, result).
    """
    x, y = inputs[0], outputs[0]
    vector, special = (4, 1) if attrs.get("log") else (3, 2)
    flop = scalar_flop(compute_dtype(inputs, outputs), vector * x.elements, special * x.elements)
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=y.nbytes,
        loaded=3 * x.elements * item_bytes(x),
        note="fused: read once, written once; one logarithm per row left out"
        if attrs.get("log")
        else "fused: read once, written once",
    )


@formula("softmax_backward")
def softmax_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of grad_x = y·(g − sum(g·y)); log-softmax: g − exp(y)·sum(g).

    Per element: multiply, add, subtract, multiply (log: add, multiply, subtract and exp). Accessed: two passes.
    """
    elements = outputs[0].elements
    vector, special = (3, 1) if attrs.get("log") else (4, 0)
    flop = scalar_flop(compute_dtype(inputs, outputs), vector * elements, special * elements)
    first = (inputs[0],) if attrs.get("log") else inputs[:2]  # the pass that sums
    loaded = sum(elements * item_bytes(spec) for spec in (*first, *inputs[:2]))
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=loaded,
        note="fused: two passes, one crossing",
    )


@formula("scan")
def scan(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of a running sum, product or maximum; "associative": a linear recurrence h = a·h + b.

    One operation per element (a recurrence: two, and its two inputs read), in one pass.

    Args:
        inputs: x; a recurrence: a, b. outputs: y[, indices].
        attrs: function: "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "associative"; or vector
            and special: operations per output element.
    """
    y = outputs[0]
    table = COMPLEX_SCANS if is_complex(y) else SCANS
    if "vector" in attrs or "special" in attrs:
        vector, special = attrs.get("vector", 0), attrs.get("special", 0)
    elif attrs["function"] in table:
        vector, special = table[attrs["function"]]
    else:
        raise UnknownNameError("scan", attrs["function"], table)
    flop = scalar_flop(compute_dtype(inputs, outputs), vector * y.elements, special * y.elements)
    return cost_of(
        flop,
        read=total_bytes(inputs),
        write=total_bytes(outputs),
        loaded=sum(spec.elements * item_bytes(spec) for spec in inputs),
        note="sequential count: one combination per element",
    )
