"""The trusted core: sealed values, the gate that opens them, the ledger charged before. Sees no rows."""
