"""Models: the selection at startup, a client for the model, learned limits, and the models to switch to."""
