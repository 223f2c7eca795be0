"""The recipes: one algorithm in each module, as a value named RECIPE, with the parts that it alone needs."""
