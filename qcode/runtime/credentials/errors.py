"""Why a key can be neither stored nor read: one line for a person, without the key."""

from __future__ import annotations


class CredentialError(Exception):
    """The file of keys cannot be used."""


class KeyringError(Exception):
    """The keyring of the system cannot be used now; the text completes "the keyring ..."."""
