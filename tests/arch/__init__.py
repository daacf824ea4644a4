"""Tests of the structure: imports, modules loaded at the start, file sizes."""
