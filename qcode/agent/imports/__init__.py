"""Import of sessions that other programs stored: find, read, and write them as sessions of qcode.

`sources` knows where they are and which reader fits; the readers build a `foreign.ForeignSession`; `migration` stores
it. The files of the other programs are only read.
"""
