"""The prompt: editing keys, history, labels, completion menu, queue and attachments."""
