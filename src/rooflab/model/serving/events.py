"""One engine under a stream of requests, step by step: continuous batching as vLLM's scheduler does it.

A step holds, in the order in which requests were admitted, the tokens that each still lacks: one of a request that
decodes, a chunk of a prompt within what is left of the token budget. Then waiting requests are admitted, first
come, first served, as long as budget, places and blocks of the KV cache are left. Where a running request finds no
free block, the one admitted last gives all of its own back and waits at the front, to be computed again
(recomputation, vLLM's default). A step that completes a request's tokens gives its next one.
(vllm/v1/core/sched/scheduler.py of vLLM 0.19; Agrawal et al., Sarathi-Serve, OSDI 2024, for chunked prefill.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rooflab.model.serving.compiled_steps import SUMS, run_steps, seconds_between
from rooflab.model.serving.table import Table

SAMPLES = 512  # of the state over time that are kept at least, twice as many at most


class Rules(NamedTuple):
    """How the scheduler of one engine works.

    Attributes:
        token_budget: most tokens that a step computes.
        most_sequences: most requests that run at once.
        blocks, block_tokens: of the KV cache.
        chunked: whether a prompt may be computed in parts; else a step has to hold all of it.
        mixed: whether prompts and sequences that decode share a step; else prompts come first, in steps of their
            own (SGLang without mixed chunks).
        reserve: whether a request is admitted only where its whole answer will fit (TensorRT-LLM's
            GUARANTEED_NO_EVICT), so that none is ever preempted.
        clients: of a closed loop: how many send their next request as soon as the last is answered, `between_s`
            later; 0 where requests arrive at given times.
        entry_s: between the first requests of two clients of a closed loop: sent at once, tokenized in turn.
        wait_steps: for how many steps that decode waiting prompts are held back until a step would hold
            `wait_tokens` (TensorRT-LLM's batch_wait_timeout_iters and batch_wait_max_tokens_ratio); 0 for never.
            Whether all that run decode is asked as a step begins, before any of them may be preempted.
        ahead: whether a step is planned as the one before it begins, so that what comes meanwhile has to wait for
            the one after it (overlap or asynchronous scheduling).
        message_s: that the process which sends tokens to clients takes for each, one after another, beside the
            steps. A request's first and last token are there when they are sent; in a closed loop the next request
            is read by the same process, behind what it has still to send.
    """

    token_budget: int = 8192
    most_sequences: int = 256
    blocks: int = 1 << 40
    block_tokens: int = 16
    chunked: bool = True
    mixed: bool = True
    reserve: bool = False
    clients: int = 0
    between_s: float = 0.0
    entry_s: float = 0.0
    wait_steps: int = 0
    wait_tokens: int = 0
    ahead: bool = False
    message_s: float = 0.0

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.blocks * self.block_tokens


class Outcome(NamedTuple):
    """What became of the requests of one engine: an entry each, in the order of the arguments.

    Attributes:
        arrival_s, admitted_s, first_s, end_s: when it came, began to run, gave its first token here and its last.
        preemptions: how often it was.
        sums: over all steps, by the names of `SUMS`.
        samples: rows of clock, waiting, running requests and blocks in use, evenly over the steps.
    """

    arrival_s: np.ndarray
    admitted_s: np.ndarray
    first_s: np.ndarray
    end_s: np.ndarray
    preemptions: np.ndarray
    sums: dict[str, float]
    samples: np.ndarray


def run(
    arrival_s: Any,
    prompt: Any,
    answer: Any,
    table: Table,
    rules: Rules,
    *,
    start: Any = 0,
    again: Any = 0,
    made: Any = 0,
) -> Outcome:
    """What becomes of each request.

    Args:
        arrival_s: of each request, ascending; of a closed loop they are found, and these ignored.
        prompt, answer: tokens of each, from 1 on.
        table: seconds of a step.
        rules: of the scheduler. Each request has to fit alone (`fits`).
        start, again: tokens whose KV is there when it is admitted for the first time, and after a preemption: of
            a cached prefix, or of a prompt computed elsewhere; fewer than `prompt` unless `made`.
        made: tokens of its answer that were made elsewhere.
    """
    count = len(prompt)
    arrived = np.full(count, np.inf) if rules.clients else np.array(arrival_s, float)
    if rules.clients:
        arrived[: rules.clients] = rules.entry_s * np.arange(min(rules.clients, count))
    whole = [np.ascontiguousarray(np.broadcast_to(each, count), np.int64) for each in (prompt, answer)]
    there = [np.ascontiguousarray(np.broadcast_to(each, count), np.int64) for each in (start, again, made)]
    admitted, first, end = (np.full(count, np.nan) for _ in range(3))
    preempted, sums, samples = np.zeros(count, np.int64), np.zeros(len(SUMS)), np.zeros((2 * SAMPLES, 4))
    blocks = min(rules.blocks, 1 << 40)
    limits = (rules.token_budget, rules.most_sequences, blocks, rules.block_tokens)
    how = (bool(rules.chunked), bool(rules.mixed), bool(rules.reserve), rules.clients, float(rules.between_s))
    how = (*how, rules.wait_steps, rules.wait_tokens, bool(rules.ahead), float(rules.message_s))
    kept = run_steps(
        *(arrived, *whole, *there, limits, how),
        *(np.ascontiguousarray(each, float) for each in table),
        *(admitted, first, end, preempted, sums, samples),
    )
    found = dict(zip(SUMS, map(float, sums), strict=True))
    return Outcome(arrived, admitted, first, end, preempted, found, samples[:kept])


def fits(prompt: np.ndarray, answer: np.ndarray, rules: Rules) -> np.ndarray:
    """Which requests can run alone: within the KV cache, and the token budget where none is cut in chunks.

    A step has to hold the prompt, and all that was made too where a preempted request is computed again.
    """
    # The last token is made and not kept.
    blocks = -(-(prompt + answer - 1) // rules.block_tokens)
    at_once = prompt if rules.reserve else prompt + answer - 1
    return (blocks <= rules.blocks) & (rules.chunked | (at_once <= rules.token_budget))


def seconds(table: Table, tokens: int, attended: int, sequences: int, context: int) -> float:
    """Seconds of one step.

    Args:
        table: of a model.
        tokens, attended: new tokens of prompts, and what they attend to, summed over them.
        sequences, context: that decode, and what they attend to, summed likewise.
    """
    grid = [np.ascontiguousarray(each, float) for each in table]
    return float(seconds_between(*grid, tokens, attended, sequences, context))
