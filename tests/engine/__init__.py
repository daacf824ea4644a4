"""Tests of the engine, without async: inputs in, effects out."""
