"""Security settings from a properties file, as Kafka's own tools take it with `--command-config`."""

from __future__ import annotations

from pathlib import Path

from oncelog.client.security.options import SecurityOptions, is_security_setting, parse_security


def read_settings(path: Path) -> dict[str, str]:
    """The security settings of the file; others are left out. Raises ValueError with one line."""
    import javaproperties

    try:
        with path.open(encoding="utf-8") as stream:
            settings: dict[str, str] = javaproperties.load(stream)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a properties file in UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return {name: value for name, value in settings.items() if is_security_setting(name)}


def read_security(path: Path | None) -> SecurityOptions:
    """Without a file, plain text."""
    settings = read_settings(path) if path is not None else {}
    try:
        return parse_security(settings)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
