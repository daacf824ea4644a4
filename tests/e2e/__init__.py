"""The whole program: real processes, the real SDKs over real HTTP to the fake server, a real pty."""
