"""Models: which one a run begins with, a client for it, learned limits, and the models to switch to."""
