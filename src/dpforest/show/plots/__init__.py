"""Pictures of fitted models and of their scores, drawn by matplotlib (extra ``plots``). Public and released values only.

Each function draws on the axes ``ax``, or on new ones, and returns them; nothing is shown or saved.
"""
