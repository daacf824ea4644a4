"""Models: the selection at startup, clients, learned limits, and the list of models that the user can switch to."""
