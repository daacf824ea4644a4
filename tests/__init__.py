"""The suite mirrors the rooms; `fakes` holds what stands in for a model host."""
