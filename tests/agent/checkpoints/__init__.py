"""Going back and forth over files and conversation."""
