"""The suite mirrors the rooms; `fakes` replaces the model hosts."""
