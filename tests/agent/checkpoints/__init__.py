"""Undo, redo and rewind of files and conversation."""
