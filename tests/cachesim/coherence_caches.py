"""The oracle's caches together: the private levels of each core, and the shared one behind."""

from collections import Counter, defaultdict

from coherence_shelf import Shelf


class Caches:
    def __init__(self, cores, levels, moesi, costs):
        self.cores, self.depth, self.moesi, self.costs = cores, max(len(levels) - 1, 1), moesi, costs
        self.near = [[Shelf(cache) for cache in levels[: self.depth]] for _ in range(cores)]
        self.far = Shelf(levels[-1]) if len(levels) > 1 else None
        self.inclusive, self.size = levels[-1].inclusion == "inclusive", levels[0].line_bytes
        self.n, self.state, self.news = Counter(), {}, defaultdict(set)  # by (core, line)
        self.lost, self.pending = set(), set()

    def count(self, what, core, line):
        self.n.update([(what, core), (what, "line", line)])

    def nearer(self, core, line, depth, keep=False):
        """Drop (or clean) the line in the levels nearer than `depth`: whether it was dirty there."""
        dirty = False
        for k, entries in enumerate(shelf.of(line) for shelf in self.near[core][:depth]):
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
        self.nearer(core, line, self.depth)
        modified = self.end(core, line)
        self.n["write_bytes", core, self.depth - 1] += self.size * (modified and written)
        return modified

    def find(self, core, line, writes):
        depth = next(k for k, shelf in enumerate(self.near[core]) if shelf.use(line, writes and k == 0))
        self.n.update([("hits", core, depth), *(("misses", core, k) for k in range(depth))])
        return depth

    def fill(self, core, line, depth, writes):
        for k in reversed(range(depth)):
            self.n["read_bytes", core, k] += self.size
            if left := self.near[core][k].put(line, writes and k == 0):
                dirty, last = self.nearer(core, left[0], k) or left[1], k == self.depth - 1
                dirty = self.end(core, left[0]) if last else dirty
                self.left(core, k, dirty)
                if dirty and not last:
                    self.n["hits", core, k + 1] += self.near[core][k + 1].use(left[0], True)
                elif dirty:
                    self.write_back(core, left[0])
