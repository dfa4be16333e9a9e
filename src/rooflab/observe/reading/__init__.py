"""How a foreign file is read: unpacked within limits, as text, tables, numbers, events, columns."""
