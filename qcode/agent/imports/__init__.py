"""Imports sessions of other programs as sessions of qcode.

`sources` finds the files and chooses a reader. The reader builds an `ImportedSession`, and `migration` stores it. The
files of the other programs are never changed.
"""
