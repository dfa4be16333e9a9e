"""The cache simulator once more, as plainly as it can be said: what the compiled one is held against.

The flow of a request, then; the other files are what policies remember, what passes between levels, and modes.
"""

from collections import Counter

from oracle_behind import Behind
from oracle_modes import Modes
from oracle_policies import Policies


class Level(Policies, Behind, Modes):
    def __init__(self, cache, below=None):
        self.c, self.below, self.near, self.n = cache, below, None, Counter()
        self.sets = [[None] * cache.set_ways for _ in range(cache.sets)]
        self.start_policy()
        self.start_modes()
        if below:
            below.near = self

    def where(self, address):
        line, s, rest = address // self.c.line_bytes, 0, address // self.c.line_bytes
        while self.c.index == "xor" and rest:  # fold the line number onto itself
            s, rest = s ^ rest, rest >> max(1, (self.c.sets - 1).bit_length())
        s = (s if self.c.index == "xor" else line) % self.c.sets
        way = next((w for w, e in enumerate(self.sets[s]) if e and e["line"] == line), None)
        return line, s, way, 1 << address % self.c.line_bytes // self.c.unit_bytes

    def ask(self, op, address, nbytes):
        """One request within a unit; True where an exclusive level hands up a dirty line."""
        c, (line, s, way, bit) = self.c, self.where(address)
        entry, writes, dirty = way is not None and self.sets[s][way], op in ("store", "writeback"), False
        hit, exclusive = bool(entry and entry["valid"] & bit), c.inclusion == "exclusive"
        counted = op in ("load", "store") or (op == "writeback" and not exclusive)
        if counted:
            self.n["hits" if hit else "misses"] += 1
        self.classify(op, address // c.unit_bytes, hit, counted)
        if exclusive and op in ("load", "prefetch"):
            return bool(self.drop(address, lost=0)) if hit else self.fetch(op, address)
        keep = hit or not writes or (c.write_allocate and not (exclusive and op == "store"))
        if keep:
            if not hit and self.reads_first(op, nbytes):
                dirty = self.fetch(op, address)
                line, s, way, bit = self.where(address)  # a level behind may have taken lines away
            new, old = way is None, None
            if new:
                way = self.room(s)
                old, self.sets[s][way] = self.sets[s][way], {"line": line, "valid": 0, "dirty": 0}
            self.use(s, way, new)
            self.sets[s][way]["valid"] |= bit
            self.sets[s][way]["dirty"] |= bit if dirty or (writes and c.write_back) else 0
            if old:
                self.displaced(old)
        if writes and not (keep and c.write_back):
            self.send(op, address, nbytes)
        if op in ("load", "store"):
            self.prefetch(address, hit)
        return False
