"""The oracle's caches, one by one: a dictionary for each set, line → dirty, the least recent first."""


class Shelf:
    def __init__(self, cache):
        self.ways, self.sets = cache.set_ways, [{} for _ in range(cache.sets)]

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
