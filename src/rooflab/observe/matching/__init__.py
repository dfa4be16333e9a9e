"""Which operation each kernel of a trace belongs to, and the ledger of operations that follows from it."""
