"""Session files: append-only JSONL, one writer, readable after any crash.

Start at `store.SessionStore`; `session.Session` is one open session, `loader.LoadedSession` one read back.
Decides nothing about a turn and knows no provider.
"""
