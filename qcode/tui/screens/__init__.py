"""Screens that lie over the app while a person picks something. Each is opened by a command."""
