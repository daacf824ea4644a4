"""Vim mode of the prompt: motions, text objects, operators, the grammar of keys, and its layer over the text area."""
