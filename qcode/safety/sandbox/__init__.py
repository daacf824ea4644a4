"""The sandbox of the operating system around a command: a second protection if the judge is wrong.

`confinement` derives the confinement of a command from the session's folders and the protected files that `index` found
in the workspace. `bubblewrap` and `landlock` return the launch of a command in it, with the kernel interfaces in
`mounts`, `seccomp` and `kernel`. `detection` tests which sandbox works on this machine. `guard` and `relocation`
restore protected files that a mount could not protect.
"""
