"""The recipes: an algorithm in each module, as a value named RECIPE; and a part that two of them need."""
