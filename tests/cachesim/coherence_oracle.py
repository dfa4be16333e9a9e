"""Several cores once more, as plainly as it can be said: what the compiled simulator is held against.

This file is the protocol; what lies where is in `coherence_caches` and `coherence_shared`: each under 60 lines.
"""

from coherence_shared import Shared


class Cores(Shared):
    def read(self, core, line, writes, others):
        """The line from its owner, the shared level or the memory: what that costs."""
        owner = next((other for other in others if self.state[other, line] in "EMO"), None)
        if owner is None:
            hit = self.far is not None and self.far.use(line)
            if self.far and not hit:
                self.n["read_bytes", "far", core] += self.size
                self.put_far(core, line, False)
            self.n["hits" if hit else "misses", "far", core] += 1
            return self.costs[self.depth if hit else self.depth + 1]
        self.count("received", core, line)
        self.n["supplied", owner] += 1
        modified = self.state[owner, line] in "MO"
        if not writes and modified and not self.moesi:
            self.nearer(owner, line, self.depth, keep=True)
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
            self.news[me] = self.news[me] if me in self.lost else set()
            self.pending |= self.lost & {me}
            self.lost -= {me}
            self.state[me] = "S" if others else "E"
        for other in others if writes else ():
            self.take(other, line, written=False)
            self.lost |= {(other, line)}
            self.count("invalidations", other, line)
        self.state[me] = "M" if writes else self.state[me]
        self.fill(core, line, depth, writes)
        if me in self.pending and self.news[me] & words:
            self.pending, self.news[me] = self.pending - {me}, set()
            self.count("true_sharing", core, line)
        for loser in [loser for loser in self.lost if loser[1] == line and writes]:
            self.news[loser] |= words
        return cost
