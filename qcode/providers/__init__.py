"""The clients of model hosts: one package per wire protocol, each with a pure codec and a client that does the I/O.

A codec turns a `ModelRequest` into a request body, and JSON objects of the stream into `ReplyEvent`s; it uses no SDK.
A client sends the request, directly or with the host's SDK, and reads the response as bytes. The first request imports
the SDK. Start at `registry`; then read `streaming` (the loop that all clients share) and `openai.chat`.
"""
