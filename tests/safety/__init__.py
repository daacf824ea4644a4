"""Tests of `qcode.safety`."""
