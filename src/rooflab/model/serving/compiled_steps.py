"""Steps of one engine under a stream of requests, and seconds of each between a table's points: compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from rooflab.cachesim.native.compile import OPTIONS, kernel

# What is summed over the steps; what is averaged over time is summed times its seconds.
SUMS = (
    *("clock_s", "busy_s", "waiting_s", "running_s", "blocks_s", "decoding_s"),
    *("steps", "mixed_steps", "computed_tokens", "made_tokens", "preemptions", "most_waiting", "most_blocks"),
)


@njit(**OPTIONS)
def _place(axis, value):
    """Before which entry of `axis` `value` lies, and how far to it; beyond an end the last line goes on."""
    at = 1
    while at < len(axis) - 1 and axis[at] < value:
        at += 1
    return at - 1, (value - axis[at - 1]) / (axis[at] - axis[at - 1])


@njit(**OPTIONS)
def _plane(grid, i, j, decoding, k, u, n, v):
    """`grid` at `i` and `j` of its first axes, straight between points of the others."""
    if not decoding:
        return grid[i, j, 0, 0]
    low = grid[i, j, k, n] + v * (grid[i, j, k, n + 1] - grid[i, j, k, n])
    high = grid[i, j, k + 1, n] + v * (grid[i, j, k + 1, n + 1] - grid[i, j, k + 1, n])
    return low + u * (high - low)


@njit(**OPTIONS)
def _at(grid_tokens, grid_attended, grid_sequences, grid_context, grid, tokens, attended, sequences, context):
    decoding = sequences > 0
    k, u = _place(grid_sequences, sequences)
    n, v = _place(grid_context, context / sequences if decoding else 0.0)
    if tokens == 0:
        return _plane(grid, 0, 0, decoding, k, u, n, v)
    i, s = _place(grid_tokens, tokens)
    j, t = _place(grid_attended, attended / tokens)
    low = _plane(grid, i, j, decoding, k, u, n, v)
    low += t * (_plane(grid, i, j + 1, decoding, k, u, n, v) - low)
    high = _plane(grid, i + 1, j, decoding, k, u, n, v)
    high += t * (_plane(grid, i + 1, j + 1, decoding, k, u, n, v) - high)
    return low + s * (high - low)


def _seconds_of(
    tokens_axis, attended_axis, sequences_axis, context_axis, grid, tokens, attended, sequences, context
):
    return _at(
        tokens_axis, attended_axis, sequences_axis, context_axis, grid, tokens, attended, sequences, context
    )


seconds_between = kernel(_seconds_of)


@njit(**OPTIONS)
def _sample(samples, kept, every, steps, clock, waiting, running, blocks):
    """Note the state before every so many steps; how many are noted, and how many steps apart from now on."""
    if steps % every == 0 and kept == len(samples):  # full: every other one is kept
        kept //= 2
        every *= 2
        for k in range(kept):
            samples[k] = samples[2 * k]
    if steps % every == 0:
        samples[kept, 0], samples[kept, 1], samples[kept, 2], samples[kept, 3] = clock, waiting, running, blocks
        kept += 1
    return kept, every


def _steps_of(
    arrived,
    prompt,
    answer,
    start,
    again,
    made_before,
    limits,
    how,
    tokens_axis,
    attended_axis,
    sequences_axis,
    context_axis,
    grid,
    admitted,
    first,
    end,
    preempted,
    sums,
    samples,
):
    """Run all requests to their end; the number of `samples` kept. The arguments are those of `events.run`."""
    budget_tokens, most_sequences, free, block_tokens = limits
    chunked, mixed, reserve, clients, between_s, wait_steps, wait_tokens, ahead, message_s = how
    blocks_in_all, count = free, len(prompt)
    computed, made = start.copy(), made_before.copy()  # tokens in the cache, of the answer
    held, now = np.zeros(count, np.int64), np.zeros(count, np.int64)  # blocks; tokens in this step
    running, front = np.zeros(count, np.int64), np.zeros(count, np.int64)  # front: preempted, last first
    ran, in_front, head, here = 0, 0, 0, 0  # lengths; next to be admitted, next to arrive
    released, done = min(clients, count), 0
    clock, busy, waiting_s, running_s, blocks_s, decoding_s = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    steps, with_prompts, new_tokens, made_tokens, preemptions, most_waiting, most_blocks = 0, 0, 0, 0, 0, 0, 0
    kept, every, ready, blocked, held_back = 0, 1, 0, False, 0
    # When all tokens that are made will be sent; those made before what comes now; before the last step.
    sent, told, older = 0.0, 0.0, 0.0
    planned = 0.0  # when the step that is next was: what had come by then may be in it
    phases = np.zeros(block_tokens, np.int64)
    while done < count:
        if ran == 0:
            planned, told, older = clock, sent, sent
        while here < count and arrived[here] <= planned and told <= planned:
            here += 1
            told += message_s
        if ran == 0 and in_front == 0 and head == here:
            clock = max(arrived[here], sent)  # nothing to do until then
            continue
        if 0 < ran == ready and (ran <= budget_tokens or not mixed):
            open_now = not blocked and ran < most_sequences and (ran < budget_tokens or not mixed)
            open_now = open_now or wait_steps > 0  # each step counts
            if not (open_now and (in_front > 0 or head < here)):
                # All decode and none is admitted: steps are alike until one ends, lacks a block, or may come.
                least, context = 1 << 40, 0
                phases[:] = 0
                for k in range(ran):
                    i = running[k]
                    least = min(least, answer[i] - made[i])
                    context += computed[i] + 1
                    if not reserve:
                        phases[computed[i] % block_tokens] += 1
                went = 0
                while went < least - 1:
                    fresh = phases[-went % block_tokens]
                    if fresh > free:
                        break
                    free -= fresh
                    waiting = in_front + here - head
                    step_s = _at(
                        tokens_axis, attended_axis, sequences_axis, context_axis, grid, 0, 0, ran, context
                    )
                    kept, every = _sample(samples, kept, every, steps, clock, waiting, ran, blocks_in_all - free)
                    planned = clock if ahead else clock + step_s
                    clock += step_s
                    told, older = older if ahead else sent, sent
                    sent = max(sent, clock) + ran * message_s
                    busy += step_s
                    waiting_s += waiting * step_s
                    running_s += ran * step_s
                    blocks_s += (blocks_in_all - free) * step_s
                    decoding_s += ran * step_s
                    steps += 1
                    new_tokens += ran
                    made_tokens += ran
                    most_waiting = max(most_waiting, waiting)
                    most_blocks = max(most_blocks, blocks_in_all - free)
                    context += ran
                    went += 1
                    while here < count and arrived[here] <= planned and told <= planned:
                        here += 1
                        told += message_s
                    if open_now and head < here:
                        break
                for k in range(ran):
                    i = running[k]
                    computed[i] += went
                    made[i] += went
                    if not reserve:
                        held[i] = -(-computed[i] // block_tokens)
        holds = False
        if 0 < ran == ready and held_back < wait_steps and (in_front > 0 or head < here):
            there = ran
            for k in range(in_front):
                there += prompt[front[k]] + made[front[k]] - computed[front[k]]
            for k in range(head, here):
                there += prompt[k] + made[k] - computed[k]
            holds = there < wait_tokens
        held_back = held_back + 1 if holds else 0
        budget, calm, some, admits = budget_tokens, True, False, False
        tokens, attended, sequences, context = 0, 0, 0, 0
        for decode in range(2):
            if decode:
                if mixed or some:
                    break
                budget = 1 << 40  # nothing but sequences that decode
            k = 0
            while k < ran:
                i = running[k]
                if not mixed and decode != (made[i] > 0 and computed[i] + 1 == prompt[i] + made[i]):
                    k += 1
                    continue
                part = min(prompt[i] + made[i] - computed[i], budget)
                lacks = 0
                if computed[i] + part > held[i] * block_tokens:
                    lacks = -(-(computed[i] + part) // block_tokens) - held[i]
                while lacks > free:
                    ran -= 1
                    last = running[ran]
                    free += held[last]
                    held[last] = 0
                    computed[last] = again[last]
                    budget += now[last]
                    now[last] = 0
                    preempted[last] += 1
                    preemptions += 1
                    front[in_front] = last
                    in_front += 1
                    calm = False
                    if last == i:
                        break
                if k == ran:
                    break
                if lacks > 0:
                    held[i] += lacks
                    free -= lacks
                now[i] = part
                budget -= part
                some = True
                k += 1
            open_now = not (decode or holds) and calm
            while open_now and budget > 0 and ran < most_sequences and (in_front > 0 or head < here):
                i = front[in_front - 1] if in_front > 0 else head
                part = prompt[i] + made[i] - computed[i]
                if part > budget:
                    if not chunked:
                        break
                    part = budget
                blocks = -(-((prompt[i] + answer[i] - 1) if reserve else (computed[i] + part)) // block_tokens)
                if blocks > free:
                    break
                held[i] = blocks
                free -= blocks
                if in_front > 0:
                    in_front -= 1
                else:
                    head += 1
                    admitted[i] = clock
                now[i] = part
                budget -= part
                some = admits = True
                running[ran] = i
                ran += 1
        for k in range(ran):
            i = running[k]
            part = now[i]
            if part == 1 and made[i] > 0 and computed[i] + 1 == prompt[i] + made[i]:
                sequences += 1
                context += computed[i] + 1
            elif part > 0:
                tokens += part
                attended += part * computed[i] + part * (part + 1) // 2
        step_s = _at(
            tokens_axis, attended_axis, sequences_axis, context_axis, grid, tokens, attended, sequences, context
        )
        waiting = in_front + here - head
        kept, every = _sample(samples, kept, every, steps, clock, waiting, ran, blocks_in_all - free)
        planned = clock if ahead else clock + step_s
        clock += step_s
        told, older = older if ahead else sent, sent
        sent = max(sent, clock)
        busy += step_s
        waiting_s += waiting * step_s
        running_s += ran * step_s
        blocks_s += (blocks_in_all - free) * step_s
        decoding_s += sequences * step_s
        steps += 1
        with_prompts += tokens > 0
        new_tokens += tokens + sequences
        most_waiting = max(most_waiting, waiting)
        most_blocks = max(most_blocks, blocks_in_all - free)
        left, ready, waits_s, messages = 0, 0, sent, 0
        for k in range(ran):
            i = running[k]
            computed[i] += now[i]
            now[i] = 0
            if computed[i] == prompt[i] + made[i]:
                made[i] += 1
                made_tokens += 1
                messages += 1
                sent = waits_s + messages * message_s
                if made[i] == made_before[i] + 1:
                    first[i] = sent
                if made[i] == answer[i]:
                    end[i] = sent
                    free += held[i]
                    held[i] = 0
                    done += 1
                    if clients > 0 and released < count:
                        arrived[released] = sent + between_s
                        released += 1
                    continue
            if made[i] > 0 and computed[i] + 1 == prompt[i] + made[i]:
                ready += 1
            running[left] = i
            left += 1
        blocked = calm and not admits and held_back == 0 and tokens == 0 and waiting > 0 and left == ran
        ran = left
    sums[0], sums[1], sums[2], sums[3], sums[4], sums[5] = (
        max(clock, sent),
        busy,
        waiting_s,
        running_s,
        blocks_s,
        decoding_s,
    )
    sums[6], sums[7], sums[8], sums[9] = steps, with_prompts, new_tokens, made_tokens
    sums[10], sums[11], sums[12] = preemptions, most_waiting, most_blocks
    return kept


run_steps = kernel(_steps_of)
