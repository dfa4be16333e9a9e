"""One cache hierarchy as plainly as it can be said: what the compiled simulator of one core is held against."""

from collections import Counter, OrderedDict


class Policy:
    """Which way of a set is replaced, by the definition of each policy."""

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


class Modes:
    """Prefetchers, and the kinds of miss by a fully associative LRU cache of the same capacity."""

    def start_modes(self):
        self.strides, self.seen, self.shadow, self.reference = {}, set(), OrderedDict(), 0

    def classify(self, op, unit, hit, counted):
        if op not in ("load", "store", "writeback"):
            return
        in_shadow = unit in self.shadow
        self.shadow[unit] = self.shadow.pop(unit, None)
        if len(self.shadow) > self.c.capacity_bytes // self.c.unit_bytes:
            self.shadow.popitem(last=False)
        if counted:
            kind = "compulsory" if unit not in self.seen else "conflict" if in_shadow else "capacity"
            self.n[kind] += not hit
            self.seen.add(unit)

    def prefetch(self, address, hit):
        c, unit, wanted = self.c, self.c.unit_bytes, []
        if not hit:
            wanted += [address + unit] if "next-line" in c.prefetch else []
            wanted += [address ^ unit] if "adjacent" in c.prefetch else []
        if "stride" in c.prefetch:
            last, stride, sure = self.strides.get(self.reference % 64, (0, 0, 0))
            sure = sure + 1 if address - last == stride else 0
            self.strides[self.reference % 64] = address, address - last, sure
            wanted += [address + (address - last) * c.prefetch_ahead] if sure >= 2 and address != last else []
        for each in wanted:
            if each >= 0 and each // 4096 == address // 4096:
                _, s, way, bit = self.where(each)
                if way is None or not self.sets[s][way]["valid"] & bit:
                    self.n["prefetches"] += 1
                    self.ask("prefetch", each // unit * unit, unit)


class Traffic:
    """What passes between levels: reads, write-backs, victims, invalidations."""

    def reads_first(self, op, nbytes):
        """Whether what `op` brings to a unit that is not here leaves something to be read."""
        writes = op in ("store", "writeback")
        if writes and not self.c.fetch_on_write:
            return False
        return op != "victim" and not (op == "writeback" and nbytes >= self.c.unit_bytes)

    def fetch(self, op, address):
        unit = self.c.unit_bytes
        self.n["read_bytes"] += unit
        op = "load" if op in ("load", "store") else "prefetch"
        return self.next_level.ask(op, address // unit * unit, unit) if self.next_level else False

    def send(self, op, address, nbytes):
        self.n["write_bytes"] += nbytes
        if self.next_level:
            self.next_level.ask(op, address, nbytes)

    def displaced(self, entry):
        c, base, dirty = self.c, entry["line"] * self.c.line_bytes, entry["dirty"]
        if c.inclusion == "inclusive":
            dirty |= self.previous.invalidate(base, c.line_bytes, c.unit_bytes)
        self.n["evictions"] += 1
        self.n["writebacks"] += dirty != 0
        for sector in range(c.line_bytes // c.unit_bytes):
            if dirty >> sector & 1:
                self.send("writeback", base + sector * c.unit_bytes, c.unit_bytes)
        if not dirty and self.next_level and self.next_level.c.inclusion == "exclusive":
            self.send("victim", base, c.line_bytes)

    def invalidate(self, base, nbytes, unit):
        """The next level drops these bytes, so this one does. A bit for each of its units that was dirty here."""
        mask = self.previous.invalidate(base, nbytes, unit) if self.previous else 0
        for address in range(base, base + nbytes, self.c.line_bytes):
            for dirty in self.drop(address):
                mask |= 1 << (dirty - base) // unit
        self.n["write_bytes"] += mask.bit_count() * unit
        return mask

    def drop(self, address, counted=1):
        """Forget the line; the addresses of its dirty units."""
        line, s, way, _ = self.where(address)
        if way is None:
            return []
        entry, self.sets[s][way] = self.sets[s][way], None
        self.n["invalidations"] += counted
        units = range(self.c.line_bytes // self.c.unit_bytes)
        return [line * self.c.line_bytes + k * self.c.unit_bytes for k in units if entry["dirty"] >> k & 1]

    def stream(self, address, nbytes):
        nbytes += len(self.drop(address)) * self.c.unit_bytes
        self.n["write_bytes"] += nbytes
        if self.next_level:
            self.next_level.stream(address, nbytes)


class Level(Policy, Modes, Traffic):
    """One cache level, and what becomes of a request to it."""

    def __init__(self, cache, next_level=None):
        self.c, self.next_level, self.previous, self.n = cache, next_level, None, Counter()
        self.sets = [[None] * cache.set_ways for _ in range(cache.sets)]
        self.start_policy()
        self.start_modes()
        if next_level:
            next_level.previous = self

    def where(self, address):
        line, s, rest = address // self.c.line_bytes, 0, address // self.c.line_bytes
        while self.c.index == "xor" and rest:  # fold the line number onto itself
            s, rest = s ^ rest, rest >> max(1, (self.c.sets - 1).bit_length())
        s = (s if self.c.index == "xor" else line) % self.c.sets
        way = next((w for w, e in enumerate(self.sets[s]) if e and e["line"] == line), None)
        return line, s, way, 1 << address % self.c.line_bytes // self.c.unit_bytes

    def ask(self, op, address, nbytes):
        """One request within a unit; True where an exclusive level hands back a dirty line."""
        c, (line, s, way, bit) = self.c, self.where(address)
        entry, writes, dirty = way is not None and self.sets[s][way], op in ("store", "writeback"), False
        hit, exclusive = bool(entry and entry["valid"] & bit), c.inclusion == "exclusive"
        counted = op in ("load", "store") or (op == "writeback" and not exclusive)
        if counted:
            self.n["hits" if hit else "misses"] += 1
        self.classify(op, address // c.unit_bytes, hit, counted)
        if exclusive and op in ("load", "prefetch"):
            return bool(self.drop(address, counted=0)) if hit else self.fetch(op, address)
        keep = hit or not writes or (c.write_allocate and not (exclusive and op == "store"))
        if keep:
            if not hit and self.reads_first(op, nbytes):
                dirty = self.fetch(op, address)
                line, s, way, bit = self.where(address)  # the next level may have invalidated lines
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
