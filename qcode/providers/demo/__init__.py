"""The built-in demo model `demo/demo`, which shows every feature of qcode offline and without a key.

It follows a script and says so. The registry creates the `DemoProvider` of `provider`; `scenarios` has the scripts.
Nothing here uses the network or the disk. Only `provider` uses the time: it pauses between two chunks, and tells when a
simulated limit ends.
"""
