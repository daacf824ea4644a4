"""The composition root: what is typed, what is chosen, what is wired."""
