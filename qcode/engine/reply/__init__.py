"""One reply of the model over all its attempts. Pure.

`reply` carries out what `recovery` decides, `phase` says what it waits for; `assembler` says what kind of reply an
attempt was, `attempt` is one request under way, `seam` joins a continuation to the text before it, `failures` handles
what goes wrong, `requests` builds what is sent. `state` is what these share; nobody else reads it.
"""
