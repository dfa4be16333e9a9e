"""A plain scheduler of continuous batching, one request an object: what the compiled one is held to."""

from __future__ import annotations

from collections import deque
from math import ceil, inf


class Request:
    """One request: what it is, and what is known of it so far."""

    def __init__(self, number, arrival_s, prompt, answer, start, again, made):
        self.number, self.arrival_s, self.prompt, self.answer = number, arrival_s, prompt, answer
        self.computed, self.again, self.made, self.made_before = start, again, made, made
        self.blocks, self.preemptions, self.tokens = 0, 0, 0
        self.admitted_s = self.first_s = self.end_s = None

    @property
    def lacks(self):
        """Tokens to compute before its next one comes out."""
        return self.prompt + self.made - self.computed


def simulate(requests, rules, step_s):
    """Run `requests` (in order of arrival) to their end; `step_s(tokens, attended, sequences, context)`."""
    coming, waiting, running, ended = deque(requests), deque(), [], []
    free, clock, planned, held_back = rules.blocks, 0.0, 0.0, 0
    sent, told, older = 0.0, 0.0, 0.0  # when all tokens will be sent; those made before what comes now
    for request in requests if rules.clients else ():
        request.arrival_s = 0.0 if request.number < rules.clients else inf

    def blocks(tokens):
        return ceil(tokens / rules.block_tokens)

    while len(ended) < len(requests):
        planned, told, older = (planned, told, older) if running else (clock, sent, sent)
        while coming and coming[0].arrival_s <= planned and told <= planned:
            waiting.append(coming.popleft())
            told += rules.message_s
        if not running and not waiting:
            clock = max(coming[0].arrival_s, sent)
            continue
        budget, scheduled, calm = rules.token_budget, [], True

        def schedule(requests, scheduled):
            nonlocal budget, free, calm
            for request in requests:
                if request not in running:
                    break  # preempted a moment ago, as are all behind it
                request.tokens = min(request.lacks, budget)
                more = max(blocks(request.computed + request.tokens) - request.blocks, 0)
                while more > free and request in running:
                    victim, calm = running.pop(), False
                    free += victim.blocks
                    victim.blocks, victim.computed, victim.preemptions = 0, victim.again, victim.preemptions + 1
                    waiting.appendleft(victim)
                if request in running:
                    request.blocks, free, budget = request.blocks + more, free - more, budget - request.tokens
                    scheduled.append(request)

        decoding = [each for each in running if each.lacks == 1 and each.made]
        all_decode = 0 < len(running) == len(decoding) and waiting
        fills = len(running) + sum(each.lacks for each in waiting) >= rules.wait_tokens
        holds = bool(all_decode and not fills and held_back < rules.wait_steps)
        held_back = held_back + 1 if holds else 0
        schedule([each for each in running if rules.mixed or each not in decoding], scheduled)
        while calm and not holds and waiting and budget and len(running) < rules.most_sequences:
            request = waiting[0]
            if request.lacks > budget and not rules.chunked:
                break
            request.tokens = min(request.lacks, budget)
            kept = request.prompt + request.answer - 1 if rules.reserve else request.computed + request.tokens
            if blocks(kept) > free:
                break
            waiting.popleft()
            request.blocks, free, budget = blocks(kept), free - blocks(kept), budget - request.tokens
            request.admitted_s = clock if request.admitted_s is None else request.admitted_s
            running.append(request)
            scheduled.append(request)
        if not scheduled:
            budget = inf
            schedule([each for each in decoding if each in running], scheduled)
        decode = [each for each in scheduled if each.tokens == each.lacks == 1 and each.made]
        prefill = [each for each in scheduled if each.tokens and each not in decode]
        attended = sum(each.computed + t for each in prefill for t in range(1, each.tokens + 1))
        context = sum(each.computed + 1 for each in decode)
        began = clock
        clock += step_s(sum(each.tokens for each in prefill), attended, len(decode), context)
        planned = began if rules.ahead else clock
        told, older = older if rules.ahead else sent, sent
        waits_s, messages = max(sent, clock), 0
        sent = waits_s
        for request in scheduled:
            request.computed += request.tokens
            if request.lacks == 0:
                request.made += 1
                messages += 1
                sent = waits_s + messages * rules.message_s
                request.first_s = sent if request.first_s is None else request.first_s
                if request.made == request.answer:
                    request.end_s, free = sent, free + request.blocks
                    running.remove(request)
                    ended.append(request)
                    if rules.clients and (late := next((r for r in coming if r.arrival_s == inf), None)):
                        late.arrival_s = sent + rules.between_s
    return requests
