"""Logins at tool servers (OAuth 2.1): `login` signs in and out, `authorization` adds the token to requests."""
