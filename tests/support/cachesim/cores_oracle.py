"""Several coherent cores as plainly as can be: what the compiled simulator of cores is held against."""

from collections import Counter, defaultdict


class Cache:
    """A dictionary for each set, line → dirty, the least recently used line first."""

    def __init__(self, description):
        self.ways, self.sets = description.set_ways, [{} for _ in range(description.sets)]

    def of(self, line):
        return self.sets[line % len(self.sets)]

    def use(self, line, dirty=False):
        entries = self.of(line)
        if line in entries:
            entries[line] = entries.pop(line) or dirty
        return line in entries

    def put(self, line, dirty):
        """The line that leaves, and whether it is dirty; or None."""
        entries = self.of(line)
        old = next(iter(entries)) if len(entries) == self.ways else None
        left = None if old is None else (old, entries.pop(old))
        entries[line] = dirty
        return left


class Caches:
    """The private levels of each core, and the level that all share behind them."""

    def __init__(self, cores, levels, moesi, costs):
        self.cores, self.depth, self.moesi, self.costs = cores, max(len(levels) - 1, 1), moesi, costs
        self.private = [[Cache(level) for level in levels[: self.depth]] for _ in range(cores)]
        self.shared = Cache(levels[-1]) if len(levels) > 1 else None
        self.inclusive, self.size = levels[-1].inclusion == "inclusive", levels[0].line_bytes
        self.n, self.state, self.written_since = Counter(), {}, defaultdict(set)  # by (core, line)
        self.lost, self.pending = set(), set()

    def count(self, what, core, line):
        self.n.update([(what, core), (what, "line", line)])

    def drop_before(self, core, line, depth, keep=False):
        """Drop (or clean) the line in the levels before `depth`: whether it was dirty there."""
        dirty = False
        for k, entries in enumerate(cache.of(line) for cache in self.private[core][:depth]):
            dirty |= entries.get(line, False)
            self.n["write_bytes", core, k] += dirty * self.size * (k < self.depth - 1)
            self.n["invalidations", core, k] += line in entries and not keep
            entries.pop(line, None) if not keep else entries.update({line: False} if line in entries else {})
        return dirty

    def end(self, core, line):
        """The core holds the line no longer: whether it was modified."""
        if (core, line) in self.pending:
            self.pending.remove((core, line))
            self.count("false_sharing", core, line)
        return self.state.pop((core, line)) in "MO"

    def take(self, core, line, written):
        self.drop_before(core, line, self.depth)
        modified = self.end(core, line)
        self.n["write_bytes", core, self.depth - 1] += self.size * (modified and written)
        return modified

    def find(self, core, line, writes):
        depth = next(k for k, cache in enumerate(self.private[core]) if cache.use(line, writes and k == 0))
        self.n.update([("hits", core, depth), *(("misses", core, k) for k in range(depth))])
        return depth

    def fill(self, core, line, depth, writes):
        for k in reversed(range(depth)):
            self.n["read_bytes", core, k] += self.size
            if left := self.private[core][k].put(line, writes and k == 0):
                dirty, last = self.drop_before(core, left[0], k) or left[1], k == self.depth - 1
                dirty = self.end(core, left[0]) if last else dirty
                self.evicted(core, k, dirty)
                if dirty and not last:
                    self.n["hits", core, k + 1] += self.private[core][k + 1].use(left[0], True)
                elif dirty:
                    self.write_back(core, left[0])

    def evicted(self, core, depth, dirty):
        self.n.update({("evictions", core, depth): 1, ("writebacks", core, depth): dirty})
        self.n["write_bytes", core, depth] += dirty * self.size

    def write_back(self, core, line):
        hit = self.shared is not None and self.shared.use(line, True)
        self.n["hits" if hit else "misses", "shared", core] += 1
        if self.shared and not hit:
            self.put_shared(core, line, True)

    def put_shared(self, core, line, dirty):
        if left := self.shared.put(line, dirty):
            for other in [o for o, other_line in self.state if other_line == left[0] and self.inclusive]:
                left = left[0], self.take(other, left[0], written=True) | left[1]
            self.evicted("shared", core, left[1])


class Cores(Caches):
    """The protocol: MESI or MOESI."""

    def read(self, core, line, writes, others):
        """The line from its owner, the shared level or main memory: what that costs."""
        owner = next((other for other in others if self.state[other, line] in "EMO"), None)
        if owner is None:
            hit = self.shared is not None and self.shared.use(line)
            if self.shared and not hit:
                self.n["read_bytes", "shared", core] += self.size
                self.put_shared(core, line, False)
            self.n["hits" if hit else "misses", "shared", core] += 1
            return self.costs[self.depth if hit else self.depth + 1]
        self.count("received", core, line)
        self.n["supplied", owner] += 1
        modified = self.state[owner, line] in "MO"
        if not writes and modified and not self.moesi:
            self.drop_before(owner, line, self.depth, keep=True)
            self.n["write_bytes", owner, self.depth - 1] += self.size
            self.count("downgrades", owner, line)
            self.write_back(owner, line)
        if not writes:
            self.state[owner, line] = "O" if self.moesi and modified else "S"
        return self.costs[self.depth + 2]

    def access(self, core, line, words, writes):
        me, others = (core, line), [o for o in range(self.cores) if o != core and (o, line) in self.state]
        if me in self.state:
            depth = self.find(core, line, writes)
            cost = self.costs[depth]
            if writes and self.state[me] in "SO":
                self.count("upgrades", core, line)
                cost += self.costs[self.depth + 3]
        else:
            depth = self.depth
            self.n.update(("misses", core, k) for k in range(depth))
            cost = self.read(core, line, writes, others)
            self.written_since[me] = self.written_since[me] if me in self.lost else set()
            self.pending |= self.lost & {me}
            self.lost -= {me}
            self.state[me] = "S" if others else "E"
        for other in others if writes else ():
            self.take(other, line, written=False)
            self.lost |= {(other, line)}
            self.count("invalidations", other, line)
        self.state[me] = "M" if writes else self.state[me]
        self.fill(core, line, depth, writes)
        if me in self.pending and self.written_since[me] & words:
            self.pending, self.written_since[me] = self.pending - {me}, set()
            self.count("true_sharing", core, line)
        for loser in [loser for loser in self.lost if loser[1] == line and writes]:
            self.written_since[loser] |= words
        return cost


class Turns:
    """The schedule: which core is next, with barriers and locks kept."""

    def __init__(self, cores, quantum):
        self.todo, self.quantum = [list(entries) for entries in cores], quantum
        self.clock, self.holder, self.waits = [0] * len(cores), {}, [None] * len(cores)
        self.turn, self.left = -1, 0

    def core(self):
        ready = [c for c, todo in enumerate(self.todo) if todo and self.waits[c] is None]
        if not ready or self.quantum is None:
            return min(ready, key=lambda c: (self.clock[c], c), default=None)
        if not (self.left and self.turn in ready):
            following = [(self.turn + k) % len(self.todo) for k in range(1, len(self.todo) + 1)]
            self.turn, self.left = next(c for c in following if c in ready), self.quantum
        return self.turn

    def next(self):
        """The next access: core, operation, array, index; None at the end."""
        while (core := self.core()) is not None or any(self.waits):
            if core is None:
                self.waits, self.clock = [None] * len(self.todo), [max(self.clock)] * len(self.todo)
                continue
            operation, *item = self.todo[core][0]
            if operation == "acquire" and item[0] in self.holder:
                self.waits[core], self.left = item[0], 0
                continue
            self.todo[core].pop(0)
            self.left -= 1
            if operation != "barrier":
                return core, operation, *item
            self.waits[core], self.left = "barrier", 0
        return None

    def done(self, core, operation, lock, cost):
        self.clock[core] += cost
        if operation == "acquire":
            self.holder[lock] = core
        if operation == "release":
            del self.holder[lock]
            for waiting in [c for c, what in enumerate(self.waits) if what == lock]:
                self.waits[waiting] = None
                self.clock[waiting] = max(self.clock[waiting], self.clock[core])
