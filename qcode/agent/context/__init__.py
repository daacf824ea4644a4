"""What the model is told before the user speaks: system prompt, environment, instruction files, attachments.

Start at `system_prompt.build_system_prompt`. Decides nothing about trust: that is passed in, and nothing of a folder
that is not trusted is run or read beyond the name of its branch.
"""
