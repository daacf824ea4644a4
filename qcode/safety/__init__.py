"""The policy: verdicts on commands, on reading and writing files, and on text that is shown.

The judges change no file and start no process. Exceptions are `launcher` and `git_repository`, which ask bash and git
and pass the answers to the judges, and `sandbox`. `paths` and `shell` inspect links, file types and names on disk,
because a link may lead anywhere, whatever its name. Read `verdict` first, then `policy`, which combines `rules`,
`paths`, `shell` and `addresses`.
"""
