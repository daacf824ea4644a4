"""Pipe mode, driven by a scripted conversation over real pipes and in processes of its own."""
