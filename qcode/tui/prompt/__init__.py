"""Where the user types: the prompt, its editing keys, history, labels, menu, queue and attachments."""
