"""The schema of the functions."""

import re

DEFAULT = "mailroom"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def quoted(schema: object) -> str:
    """The name of a schema as statements have it."""
    if not isinstance(schema, str) or not _NAME.fullmatch(schema):
        raise ValueError("schema must be a name of letters, digits and underscores")
    return f'"{schema}"'
