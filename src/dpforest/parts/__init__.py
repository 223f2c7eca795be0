"""Parts of recipes: each is one idea of a paper, with its claim and proof. Sees public and sealed values."""
