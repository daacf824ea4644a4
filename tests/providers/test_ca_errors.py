"""The message about certificates that cannot be read: the file, the variable that names it, and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.protocol.errors import ProviderError
from qcode.providers.connection import Connection
from qcode.providers.sdk import tls_context


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file or directory"), ("no certificate", "it contains no certificate")]
)
def test_ca_error_names_file_variable_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, why: str
) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ProviderError) as raised:
        tls_context(Connection("openai", "http://localhost", ""))
    assert raised.value.message == f"cannot read the CA certificates in {file} (SSL_CERT_FILE): {why}"
