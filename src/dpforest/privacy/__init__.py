"""Privacy core: sealed values, the gate that opens them, the ledger that is charged first. Sees no rows."""
