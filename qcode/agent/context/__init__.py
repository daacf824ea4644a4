"""The context sent before the user's prompt: system prompt, environment, instruction files, attachments.

Start at `system_prompt.build_system_prompt`. Trust is decided elsewhere and passed in. In an untrusted folder
nothing is executed, and only the name of its branch is read.
"""
