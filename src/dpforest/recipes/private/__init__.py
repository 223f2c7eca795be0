"""The private recipes: one algorithm in each module, as a value named RECIPE. Sees public values only."""
