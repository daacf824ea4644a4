"""The few programs that judging needs: bash, to read a command without running it, and git, to list a configuration.

Absolute paths from safe parts of PATH, argument lists, no shell, a hardened environment, bounded time and output. The
judges know nothing of this room: what it finds out is handed to them.
"""
