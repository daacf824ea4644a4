"""The app without a screen, for screen readers and simple terminals."""
