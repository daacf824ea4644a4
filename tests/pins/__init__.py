"""Pins: recorded requests and output of qcode, compared byte for byte.

Everything runs through the command line, the environment, config files and a fake model host over HTTP, so the pins
hold while modules are renamed and moved. `make pin-update` records changed behavior; read the diff of `data` before
you commit it. `data/sessions` is input, written by an earlier version, and is never recorded.
"""
