"""How long something took, for people."""

from __future__ import annotations

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"))


def duration_text(duration_ms: int) -> str:
    """The two largest units: `2h 5m`, `1m 30s`, `12s`, `0.4s`."""
    if duration_ms < 10_000:
        return f"{duration_ms / 1000:.1f}s"
    parts: list[str] = []
    for size_ms, unit in _UNITS:
        count, duration_ms = divmod(duration_ms, size_ms)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0"))
