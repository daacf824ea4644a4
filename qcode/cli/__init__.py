"""The command line: arguments, questions on the terminal, then a front end. It may import all other packages.

Start at `main`.
"""
