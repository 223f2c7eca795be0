"""How forests grow: the loop over levels, and the order of trees. Sees sealed counts, by protocol; never rows."""
