"""The package as it is built, and the files of the release: container, workflows and the action."""
