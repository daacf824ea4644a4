"""Tests of `qcode.tools`."""
