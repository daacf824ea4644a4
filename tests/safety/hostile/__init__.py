"""A model that tries everything the page on safety forbids, and canaries that say whether anything came of it."""
