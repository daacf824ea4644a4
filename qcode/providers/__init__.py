"""Model hosts: one package per wire protocol, each a pure codec and a client that does the I/O.

A codec turns a `ModelRequest` into a request body and plain JSON objects into `ReplyEvent`s; it knows no SDK.
A client lets the SDK connect and reads the stream as bytes. SDKs load with the first request, never on import.
Start at `registry`; then `streaming` (the loop all clients share) and `openai.chat`.
"""
