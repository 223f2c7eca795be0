"""Model files, how far a model stands out of its noise, and what looks odd about it. Released values only."""
