"""What Amazon's SDK would find on the machine of whoever runs the tests, put out of its sight."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_amazon_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-test-1")
