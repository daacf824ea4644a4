"""Policy: what may run, what may be read and written, and what may be shown.

Everything here decides and nothing acts: no file is changed and no process started, but for `launcher` and
`git_repository`, which ask bash and git and hand the judges what they said, and for `sandbox`. `paths` and `shell`
look at the disk (links, kinds, names) because a verdict about a name says nothing about what it leads to.
Read `verdict` first, then `policy`, which puts `rules`, `paths`, `shell` and `addresses` together.
"""
