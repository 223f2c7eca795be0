"""Parts of recipes: each one idea of a paper, with its claim and proof."""
