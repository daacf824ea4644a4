"""Bedrock: frames, failures, and the client on Amazon's SDK."""
