"""What the model can call. Each tool is a class with a `spec`, a pure-looking `preview` and an async `run`.

Tools touch the disk only through the `Workspace` they are given, decide nothing about approval, and answer every
failure as a result: `run` raises only when it is cancelled. Read `tool` first, then `registry` and `workspace`;
`files` holds the tools that read and find, `editing` those that change files.
"""
