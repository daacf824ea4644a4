"""Builders of the data that ships in the package. Run by hand; not part of the wheel."""
