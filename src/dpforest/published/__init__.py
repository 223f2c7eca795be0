"""Algorithms exactly as their papers print them, for research. NOT private: sees opened rows, as every model says."""
