"""The command line: arguments, questions on the terminal, then a front end. The only room that imports all others.

Start at `main`.
"""
