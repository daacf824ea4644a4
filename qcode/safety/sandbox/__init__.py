"""The sandbox of the operating system around a command: a second protection if the judge is wrong.

`confinement` derives the confinement of a command from the session's folders and the protected files that `index` found
in the workspace. `bubblewrap` and `landlock` build the launch of a confined command. They use the kernel interfaces in
`mounts`, `seccomp` and `kernel`. `detection` tests which sandbox works on this machine. `guard` and `nofollow`
restore protected files that a mount could not protect.
"""
