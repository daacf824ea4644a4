"""Codecs on recorded chunks, clients against a local server, the model catalog."""
