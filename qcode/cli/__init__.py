"""The command line: arguments, questions on the terminal, then a front end. The only room that knows every other.

Start at `main`.
"""
