"""The oracle's replacement policies."""

from collections import Counter


class Policies:
    def start_policy(self):
        self.clock, self.rng, self.tree = 0, self.c.seed, Counter()
        self.ages = [[3] * self.c.set_ways for _ in range(self.c.sets)]

    def use(self, s, way, new):
        """Way `way` of set `s` was filled (`new`) or hit."""
        policy, self.clock = self.c.policy, self.clock + 1
        if policy == "lru" or new:
            self.sets[s][way]["time"] = self.clock
        node = way + self.c.set_ways
        while policy == "plru" and node > 1:  # every node above points away from it
            self.tree[s, node // 2], node = 1 - node % 2, node // 2
        if policy.startswith("qlru"):
            _, hit, miss, _, rule, *miss_only = policy.split("_")
            age = {3: int(hit[1]), 2: int(hit[2]), 1: 0, 0: 0}[self.ages[s][way]]
            self.ages[s][way] = int(miss[1]) if new else age
            if not miss_only:
                self.grow_older(s, rule, way)

    def grow_older(self, s, rule, way):
        ages = self.ages[s]
        others = [age for w, age in enumerate(ages) if rule != "u1" or w != way]
        step = 3 - max(others, default=3) if rule in ("u0", "u1") else int(3 not in ages)
        self.ages[s] = [age if rule in ("u1", "u3") and w == way else age + step for w, age in enumerate(ages)]

    def room(self, s):
        """The way of set `s` to fill."""
        ways, policy = self.sets[s], self.c.policy
        if policy.endswith("umo"):
            self.grow_older(s, policy.split("_")[4], None)
        empty = [w for w, entry in enumerate(ways) if entry is None]
        if empty:
            return empty[-1] if "_r2_" in policy else empty[0]
        if policy == "random":
            self.rng = (self.rng * 6364136223846793005 + 1442695040888963407) % 2**64
            return (self.rng >> 33) % len(ways)
        if policy == "plru":
            node = 1
            while node < len(ways):
                node = 2 * node + self.tree[s, node]
            return node - len(ways)
        if policy.startswith("qlru"):
            return self.ages[s].index(3) if 3 in self.ages[s] else 0
        return min(range(len(ways)), key=lambda w: ways[w]["time"])
