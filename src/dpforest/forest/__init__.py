"""The released forest and the bands of its noise: what everybody may see. Released values only."""
