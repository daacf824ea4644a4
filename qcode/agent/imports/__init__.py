"""Imports sessions and settings of other programs, whose files are never changed.

Sessions: `sources` finds the files and chooses a reader, which builds an `ImportedSession`; `migration` stores it.
Settings: see the package `configuration`.
"""
