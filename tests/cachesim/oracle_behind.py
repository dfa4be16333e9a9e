"""What passes between the levels of the oracle: reads, write-backs, lines taken away."""


class Behind:
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
