"""What the model is told before the person speaks: our own text, the environment, and instruction files.

Start at `prompt.build_system_prompt`. Decides nothing about trust: that is passed in, and nothing of a folder that is
not trusted is run or read beyond the name of its branch.
"""
