"""Builders of data and documentation, and checks of the style. They run by hand or in CI; the wheel lacks them."""
