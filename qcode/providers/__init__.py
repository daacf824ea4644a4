"""The clients of model hosts: one package per wire protocol, each with a pure codec and a client that does the I/O.

A codec turns a `ModelRequest` into a request body, and JSON objects of the stream into `ReplyEvent`s; it uses no SDK.
A client connects with the SDK and reads the stream as bytes. SDKs are imported with the first request.
Start at `registry`; then read `streaming` (the loop that all clients share) and `openai.chat`.
"""
