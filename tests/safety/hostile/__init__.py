"""A model that tries everything that the page on safety forbids, and canaries that reveal whether it succeeded."""
