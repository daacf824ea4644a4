"""The built package, and the files of the release: container, workflows and the action."""
