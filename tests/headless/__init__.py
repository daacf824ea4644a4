"""Pipe mode, driven by a scripted conversation, over real pipes and in separate processes."""
