"""The command line: arguments, questions on the terminal, then a front end. Only this package may import all others.

Start at `main`.
"""
