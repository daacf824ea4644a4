"""Checkpoints: the contents of files from before qcode changed them, and the way back.

Start at `rewinder.Rewinder`. What happened is told by the session's line (`runtime.store.line`), which is pure; here
are the contents (`blobs`), the recording (`recorder`, `watch`) and the restoring (`plan`, `restore`).
Nothing here runs git, and nothing touches a file that qcode did not change itself.
"""
