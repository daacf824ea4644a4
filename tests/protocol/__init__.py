"""Tests of the values all rooms speak."""
