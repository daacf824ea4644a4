"""Which URLs are fetched at all, and which addresses are public."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.safety.addresses import UrlTarget, is_global, read_url


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True), ("1.1.1.1", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True), ("0.0.0.0", False), ("10.1.2.3", False), ("100.64.0.1", False),
        ("100.127.255.255", False), ("127.0.0.1", False), ("127.9.9.9", False), ("169.254.169.254", False),
        ("172.16.0.1", False), ("172.31.255.255", False), ("172.32.0.1", True), ("192.0.0.170", False),
        ("192.0.2.1", False), ("192.88.99.1", False), ("192.168.0.1", False), ("198.18.0.1", False),
        ("198.51.100.1", False), ("203.0.113.1", False), ("224.0.0.1", False), ("240.0.0.1", False),
        ("255.255.255.255", False), ("168.63.129.16", False), ("::", False), ("::1", False), ("::7f00:1", False),
        ("::ffff:127.0.0.1", False), ("::ffff:169.254.169.254", False), ("64:ff9b::7f00:1", False),
        ("64:ff9b::a9fe:a9fe", False), ("64:ff9b:1::1", False), ("2002:7f00:1::", False), ("2002:808:808::", False),
        ("2001:0:7f00:1::", False), ("2001:db8::1", False), ("fc00::1", False), ("fd00:ec2::254", False),
        ("fe80::1", False), ("fec0::1", False), ("ff02::1", False), ("100::1", False), ("5f00::1", False),
        ("::ffff:0:127.0.0.1", False), ("::ffff:0:8.8.8.8", False),
    ],
)  # fmt: skip
def test_addresses_are_parsed(address: str, expected: bool) -> None:
    assert is_global(ip_address(address)) is expected


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://docs.python.org/3/", "docs.python.org", 443), ("http://Example.COM.", "example.com", 80),
        ("https://example.com:8443/x?y#z", "example.com", 8443),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example", 443),
        ("https://8.8.8.8/", "8.8.8.8", 443), ("https://[2606:4700::1111]/", "[2606:4700::1111]", 443),
        ("HTTPS://a.example", "a.example", 443), ("https://\uff45xample.com/", "example.com", 443),
    ],
)  # fmt: skip
def test_public_addresses_are_allowed(url: str, host: str, port: int) -> None:
    found = read_url(url)
    assert isinstance(found, UrlTarget), found
    assert (found.host, found.port, found.is_public) == (host, port, True)


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "docs.python.org", "ftp://a.example/", "file:///etc/passwd", "javascript:x", "data:,x", "https://",
        "https:///x", "http:a.example", "https://me@a.example/", "https://me:p@a.example/", "https://a.example@b.example/",
        "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/",
        "https://0/", "https://127.0.0.1.:80x/", "https://a.example:0/", "https://a.example:99999/", "https://a b/",
        "https://a.example\\@b.example/", "https://a.example/\n", "https://a..example/", "https://-a.example/",
        "https://[::1%25eth0]/", "https://[::1/", "https://a_b.ex*mple/", "https://\u202ea.example/", "https://a.example:/",
        "https://[v1.x]/", "https://[a.example]/", "https://[1.2.3.4]/", "https://1.2.3/", "https://1.2.3.4.5/", "https://256.1.1.1/",
    ],
)  # fmt: skip
def test_unsupported_addresses_are_never_fetched(url: str) -> None:
    assert isinstance(read_url(url), str)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/", "http://localhost:8000/", "http://127.0.0.1/", "http://[::1]:3000/", "http://a.localhost/",
        "http://[::ffff:127.0.0.1]/", "http://169.254.169.254/latest", "http://metadata.google.internal/",
        "http://printer.local/", "http://intranet/", "http://10.0.0.1/", "http://router.lan/", "http://metadata/",
        "http://127.0.0.1./", "http://\uff11\uff12\uff17.0.0.1/", "http://127\u30020\u30020\u30021/",
    ],
)  # fmt: skip
def test_private_addresses_are_recognized(url: str) -> None:
    found = read_url(url)
    assert isinstance(found, UrlTarget), found
    assert not found.is_public


@given(
    st.text(max_size=40) | st.text(alphabet="htps:/.@[]0x127a\\%\u3002", max_size=30).map(lambda end: f"http://{end}")
)
def test_any_text_is_read_or_refused(url: str) -> None:
    found = read_url(url)
    assert isinstance(found, UrlTarget) or found
