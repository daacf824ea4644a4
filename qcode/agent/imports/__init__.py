"""Imports sessions of other programs as sessions of qcode.

`sources` finds the files and chooses a reader; the readers build a `foreign.ForeignSession`; `migration` stores it. The
files of the other programs are never changed.
"""
