"""Formats numbers for display: tokens, sizes, money, durations, exit codes. Pure."""

from __future__ import annotations

from decimal import Decimal


def tokens_text(count: int) -> str:
    """Format a token count in at most five characters: `950`, `8.2k`, `128k`, `1.3M`."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if _reaches(count, size):
            return _scaled(count / size) + unit
    return str(count)


def bytes_text(count: int) -> str:
    """Format a size: `950 B`, `8.2 kB`, `128 kB`, `1.3 MB`."""
    for size, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if _reaches(count, size):
            return f"{_scaled(count / size)} {unit}"
    return f"{count} B"


def _reaches(count: int, size: int) -> bool:
    """Return whether `count` is at least `size` after rounding: 999,500 is shown as `1M`, not as `1000k`."""
    return count >= size - size // 2_000


def _scaled(number: float) -> str:
    """Format a number with one decimal below 100, and without a decimal that is zero."""
    return f"{number:.0f}" if number >= 99.95 else f"{number:.1f}".removesuffix(".0")


def cost_text(cost: Decimal) -> str:
    """Format US dollars with two decimals from $0.10, and four below, so that a small cost never reads as zero."""
    if cost == 0:
        return "$0"
    if cost >= Decimal("0.1"):
        return f"${cost:.2f}"
    return f"${cost:.4f}" if cost >= Decimal("0.0001") else "<$0.0001"


def dollars_text(price: Decimal) -> str:
    """Format a price without dollar sign and trailing zeros: `3`, `0.25`, `1.5`."""
    text = f"{price:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent_text(part: int, whole: int) -> str:
    """Format a share as a percentage: `45%`, or `<1%` for a share that is not zero."""
    if not whole or not part:
        return "0%"
    return f"{part / whole:.0%}" if part * 100 >= whole else "<1%"


def duration_text(seconds: float) -> str:
    """Format a duration in whole seconds: `3 s`, `2 min 05 s`, `1 h 02 min`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60:02d} min"


MAX_WHOLE_NUMBER = 10**18
"""Larger limits have the same effect, and `int` refuses a text of thousands of digits."""


def whole_number(text: str) -> int | None:
    """Parse a number in plain digits, at most `MAX_WHOLE_NUMBER`; None for other text."""
    if not text.isascii() or not text.isdigit():
        return None
    digits = text.lstrip("0")
    return MAX_WHOLE_NUMBER if len(digits) > 18 else int(digits or "0")


_MAX_DURATION_CHARS = 9


def seconds_of(text: str) -> float | None:
    """Parse a duration such as `90s`, `30m`, `2h`, `1d` or `1.5h`; None for other text, and for a duration of 0."""
    number, unit = text[:-1], text[-1:]
    scale = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}.get(unit)
    whole, _, fraction = number.partition(".")
    digits = whole + fraction
    is_number = bool(whole) and digits.isascii() and digits.isdigit()
    if scale is None or not is_number or len(number) > _MAX_DURATION_CHARS:
        return None
    return float(number) * scale or None


def retry_countdown(attempt: int, max_retries: int, seconds: float) -> str:
    """Format the wait before a retry: `retry 1 of 5 in 3 s`, or `3 s left` if `attempt` is 0.

    If `max_retries` is 0, the number of retries is unknown and left out.
    """
    if not attempt:
        return f"{duration_text(seconds)} left"
    number = f"{attempt} of {max_retries}" if max_retries else f"{attempt}"
    return f"retry {number} in {duration_text(seconds)}"


def age_text(seconds: float) -> str:
    """Format an age in its largest unit: `3 s`, `9 min`, `5 h`, `12 days`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min"
    return f"{whole // 3_600} h" if whole < 2 * 86_400 else f"{whole // 86_400} days"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: `1 line`, `12 lines`; `plural` is needed if it is not `noun` and an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def exit_text(code: int) -> str:
    """Describe the exit code of a process: `exit code 1`, or `ended by signal 9` for the code -9."""
    return f"ended by signal {-code}" if code < 0 else f"exit code {code}"


def uuid_text(random: bytes) -> str:
    """Return a version 4 UUID made of 16 random bytes. The module `uuid` takes longer to load than all hooks."""
    bits = int.from_bytes(random, "big")
    bits = bits & ~(0xF000 << 64) | (0x4000 << 64)  # the version
    bits = bits & ~(0xC000 << 48) | (0x8000 << 48)  # the variant (RFC 9562)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
