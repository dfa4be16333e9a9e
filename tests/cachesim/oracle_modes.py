"""The oracle's modes: prefetchers, kinds of miss."""

from collections import OrderedDict


class Modes:
    def start_modes(self):
        self.strides, self.seen, self.shadow, self.reference = {}, set(), OrderedDict(), 0

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
