"""The built-in demo model `demo/demo`: qcode with every feature, offline and without a key.

It follows a script and says so. The registry creates `provider`; `scenarios` has the scripts. Nothing here uses a
network, a disk or a clock, except for the pause between two chunks.
"""
