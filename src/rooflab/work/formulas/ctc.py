"""Connectionist temporal classification: the recursion over time and the states of a target, and its gradient."""

from __future__ import annotations

from rooflab.types.work import Cost
from rooflab.work.formulas.cost_terms import compute_dtype, cost_of, item_bytes, scalar_flop, total_bytes
from rooflab.work.formulas.registry import Attrs, Specs, formula

# One state at one time takes log(exp(a) + exp(b) + exp(c)) of three states before, less their largest, and adds
# the logarithm of its label's probability (Graves et al., ICML 2006, in logarithms): 2 comparisons,
# 3 subtractions, 4 additions; 3 exponentials and a logarithm.
_STATE = (9, 4)
# α and β of a state are joined in its label's sum, log(exp(x) + exp(y)): an addition, a comparison,
# 2 subtractions, 2 additions; 2 exponentials and a logarithm.
_JOINED = (6, 3)
# exp(l) − exp(sum + loss − l), times the gradient, for each class: 4 and 2 exponentials.
_CLASS = (4, 2)


@formula("ctc")
def ctc(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of the loss: for each time 2s + 1 states of a target of s labels, blanks between them.

    Args:
        inputs: logarithms of probabilities (times, batch, classes), targets[, lengths …].
        outputs: loss, logarithms of α (batch, times, states).
        attrs: lengths: (times, labels) of each sequence; without data the longest that fit, an upper bound.
            classes.
    """
    states = _states(attrs)
    x = inputs[0]
    # of a time's classes, those of the target and the blank are read
    read = min(x.nbytes, states * item_bytes(x)) + total_bytes(inputs[1:])
    flop = scalar_flop(compute_dtype((x,)), _STATE[0] * states, _STATE[1] * states)
    note = "states: times × (2 × labels + 1); one after another in time"
    return cost_of(flop, read=read, write=total_bytes(outputs), loaded=4 * states * item_bytes(x), note=note)


@formula("ctc_backward")
def ctc_backward(inputs: Specs, outputs: Specs, attrs: Attrs) -> Cost:
    """The cost of the gradient: β as α, both joined by label, and each class of each time.

    Args:
        inputs: grad, logarithms of probabilities, targets, lengths …, loss, logarithms of α.
        outputs: the gradient of the logarithms of probabilities.
        attrs: as `ctc`.
    """
    states, classes = _states(attrs), sum(times for times, _ in attrs["lengths"]) * attrs["classes"]
    counts = [_STATE[each] * states + _JOINED[each] * states + _CLASS[each] * classes for each in (0, 1)]
    flop = scalar_flop(compute_dtype(inputs[:2]), *counts)
    read, write = total_bytes(inputs), total_bytes(outputs)
    loaded = read + 4 * states * item_bytes(inputs[1])
    return cost_of(flop, read=read, write=write, loaded=loaded, note="β as α, joined by label; each class once")


def _states(attrs: Attrs) -> int:
    return sum(times * (2 * labels + 1) for times, labels in attrs["lengths"])
