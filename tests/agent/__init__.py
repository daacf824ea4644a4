"""The agent as a library: what front ends hold."""
