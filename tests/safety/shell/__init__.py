"""Tests of the judge of shell commands."""
