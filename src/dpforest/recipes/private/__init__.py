"""The catalogue: one algorithm in each module, a value named RECIPE."""
