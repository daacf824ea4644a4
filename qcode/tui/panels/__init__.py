"""Panels that open above the prompt: approvals, to-do list, tool servers, search. Loaded after the first paint."""
