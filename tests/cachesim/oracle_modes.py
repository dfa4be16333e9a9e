"""The oracle's modes: what passes between levels, prefetchers, kinds of miss."""

from collections import OrderedDict


class Modes:
    def start_modes(self):
        self.strides, self.seen, self.shadow, self.reference = {}, set(), OrderedDict(), 0

    def fetch(self, op, address):
        unit = self.c.unit_bytes
        self.n["read_bytes"] += unit
        op = "load" if op in ("load", "store") else "prefetch"
        return self.below.ask(op, address // unit * unit, unit) if self.below else False

    def send(self, op, address, nbytes):
        self.n["write_bytes"] += nbytes
        if self.below:
            self.below.ask(op, address, nbytes)

    def displaced(self, entry):
        c, base, dirty = self.c, entry["line"] * self.c.line_bytes, entry["dirty"]
        if c.inclusion == "inclusive":
            dirty |= self.near.lose(base, c.line_bytes, c.unit_bytes)
        self.n["evictions"] += 1
        self.n["writebacks"] += dirty != 0
        for sector in range(c.line_bytes // c.unit_bytes):
            if dirty >> sector & 1:
                self.send("writeback", base + sector * c.unit_bytes, c.unit_bytes)
        if not dirty and self.below and self.below.c.inclusion == "exclusive":
            self.send("victim", base, c.line_bytes)

    def lose(self, base, nbytes, unit):
        """A level behind forgets these bytes: so do we. A bit for each of its units that was dirty here."""
        mask = self.near.lose(base, nbytes, unit) if self.near else 0
        for address in range(base, base + nbytes, self.c.line_bytes):
            for dirty in self.drop(address):
                mask |= 1 << (dirty - base) // unit
        self.n["write_bytes"] += mask.bit_count() * unit
        return mask

    def drop(self, address, lost=1):
        """Forget the line; the addresses of its dirty units."""
        line, s, way, _ = self.where(address)
        if way is None:
            return []
        entry, self.sets[s][way] = self.sets[s][way], None
        self.n["invalidations"] += lost
        units = range(self.c.line_bytes // self.c.unit_bytes)
        return [line * self.c.line_bytes + k * self.c.unit_bytes for k in units if entry["dirty"] >> k & 1]

    def stream(self, address, nbytes):
        nbytes += len(self.drop(address)) * self.c.unit_bytes
        self.n["write_bytes"] += nbytes
        if self.below:
            self.below.stream(address, nbytes)

    def classify(self, op, unit, hit, counted):
        if op not in ("load", "store", "writeback"):
            return
        known = unit in self.shadow
        self.shadow[unit] = self.shadow.pop(unit, None)
        if len(self.shadow) > self.c.capacity_bytes // self.c.unit_bytes:
            self.shadow.popitem(last=False)
        if counted:
            kind = "compulsory" if unit not in self.seen else "conflict" if known else "capacity"
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
