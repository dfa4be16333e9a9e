"""The oracle's shared level: what arrives there, and what leaves it."""

from coherence_caches import Caches


class Shared(Caches):
    def left(self, core, depth, dirty):
        self.n.update({("evictions", core, depth): 1, ("writebacks", core, depth): dirty})
        self.n["write_bytes", core, depth] += dirty * self.size

    def write_back(self, core, line):
        hit = self.far is not None and self.far.use(line, True)
        self.n["hits" if hit else "misses", "far", core] += 1
        if self.far and not hit:
            self.put_far(core, line, True)

    def put_far(self, core, line, dirty):
        if left := self.far.put(line, dirty):
            for other in [o for o, held in self.state if held == left[0] and self.inclusive]:
                left = left[0], self.take(other, left[0], written=True) | left[1]
            self.left("far", core, left[1])
