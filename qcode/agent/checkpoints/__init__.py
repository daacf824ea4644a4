"""Checkpoints: the contents of files from before qcode changed them, and the way back.

Start at `rewind.Rewinder`. The events are in the session's history (`sessions.history`), which is pure; here are the
contents (`blobs`), the recording (`checkpoints`, `watch`) and the restoring (`rewind`).
Nothing here runs git, and nothing touches a file that qcode did not change itself.
"""
