"""The direct way to a host: a plain key, a plain address, no proxy, and no SDK to load.

HTTP/1.1 over asyncio. `framing` and `codings` are pure; `sockets` connects; `client` sends and reads; `provider`
says when this way may be taken. Everything else goes through the host's SDK.
"""
