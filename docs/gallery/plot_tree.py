"""A tree

One tree from its released counts, from the root at the left to the leaves at the right. Grey boxes ask a question. Leaves
have the colour of their class, the darker the surer it is: the class, its share, and how many records there are, each with
its 95 % band. A leaf whose size is not far above its noise says little.
"""

from dpforest import DPForestClassifier
from dpforest.datasets import load_survey
from dpforest.plots import tree

X, y, schema = load_survey()
model = DPForestClassifier(schema, epsilon=2, recipe="consul-2020", n_trees=1, max_depth=3).fit(X, y)
figure = tree(model).figure
