"""The terminal below Textual: what its driver does not do, raw input, copying."""
