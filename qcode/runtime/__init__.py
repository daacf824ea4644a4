"""Performs what the engine asks for: requests, tools, approvals, waits; keeps sessions and briefs the model.

This is the only room that waits. It never decides what the engine decides, and shows nothing.
"""
