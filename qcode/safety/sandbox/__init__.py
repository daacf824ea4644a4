"""The sandbox of the operating system around a command: the second lock, which holds if the judge is wrong.

`confinement` says which confinement a session's folders call for, with the names that `index` found in the workspace.
`bubblewrap` and `landlock` say how a command is started in it; `mounts`, `seccomp` and `kernel` are what they need of
the kernel. `detection` tries out which of them works. `guard` puts back what no mount could protect, with `relocation`.
"""
