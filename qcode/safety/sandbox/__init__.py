"""Walls of the operating system around a command, the last defence behind the judges; and which of them work here.

`confinement` says what a command may do, `bubblewrap` and `landlock` say how, `finding` tries them out. The one file
that runs inside, `confine`, stands alone: it imports nothing of qcode.
"""
