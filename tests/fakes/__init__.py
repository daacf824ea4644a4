"""Fakes that tests share: a scripted provider, a chaotic one, and an HTTP server that speaks the real protocols."""
