"""Plans of the default recipe: what each looks like for given public facts. Which one is made, the planner says."""
