"""Session files: append-only JSONL, one writer, readable after any crash.

Start at `store.SessionStore`; `session.Session` is one open session, `loaded.LoadedSession` what was read back.
Decides nothing about a turn and knows no provider.
"""
