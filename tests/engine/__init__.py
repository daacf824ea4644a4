"""The engine is tested without async: inputs in, effects out."""
