"""The tools that the model can call. Each has a `spec`, a `preview` that changes nothing, and an async `run`.

Tools access the disk only through their `Workspace` and do not decide about approval. Every failure is a result: `run`
raises only when it is cancelled. Read `tool` first, then `registry` and `workspace`. `files` has the tools that read
and find files, `editing` the tools that change them.
"""
