"""Terminal features that Textual lacks: title, bell, raw input, signals, clipboard."""
