"""The suite mirrors the packages of `qcode`; `fakes` replaces the servers of models."""
