"""The built-in demo model `demo/demo`: qcode with every feature, offline and without a key.

It follows a script and says so. `provider` is what the registry makes, `scenarios` what it can play.
Nothing here touches a network, a disk or a clock other than the pause between two chunks.
"""
