"""Checkpoints: the contents of files before qcode changed them, and how to restore them.

Start at `rewind.Rewinder`. The history of a session (`sessions.history`) lists the changes. This package stores the
contents (`blobs`), records changes (`checkpoints`, `watch`) and restores files (`rewind`, `restorer`). It never runs
git and never writes a file that qcode did not change.
"""
