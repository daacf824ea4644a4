"""Checkpoints: the contents of files before qcode changed them, and how to restore them.

Start at `rewind.Rewinder`. The events are in the session's history (`sessions.history`), which is pure. This package
stores the contents (`blobs`), records changes (`checkpoints`, `watch`) and restores files (`rewind`). It never runs git
and never touches a file that qcode did not change.
"""
