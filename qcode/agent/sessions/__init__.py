"""Session files: append-only JSONL with one writer, readable after any crash.

Start at `store.SessionStore`; `session.Session` is an open session, `loader.LoadedSession` a session read from a file.
Independent of turns and providers.
"""
