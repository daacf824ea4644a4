"""The agent as a library: the object that front ends use."""
