"""Links that carry scenarios: a document, compressed, after the # of an address, so that it is never sent to a server.

The page makes the same links (deflate without a header, then base64url), and any copy of PHExplore opens them.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from typing import Any

from phsafe.configs.config import MAX_BYTES
from phsafe.errors import ConfigError

#: The document in a link, whose address doesn't matter.
LINK = re.compile(r"(?:^|[#&])s=([A-Za-z0-9_-]+)(?:&|$)")


def is_link(text: str) -> bool:
    """Whether a text is a link, or the end of one, rather than a document or a file."""
    return LINK.search(text.strip()) is not None and not text.lstrip().startswith(("{", "["))


def to_link(document: dict[str, Any], address: str = "") -> str:
    """Return a link that carries a document.

    >>> from_link(to_link({"scenarios": []}, "http://127.0.0.1:8765/"))
    '{"scenarios": []}'
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(json.dumps(document, ensure_ascii=False).encode()) + packer.flush()
    return f"{address}#s={base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def from_link(link: str) -> str:
    """Return the document of a link as text. What it holds is checked like any other document.

    Raises:
        ConfigError: The link is broken, or its document is too large.
    """
    found = LINK.search(link.strip())
    code = found[1] if found else ""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = unpacker.decompress(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)), MAX_BYTES)
        if unpacker.unconsumed_tail:
            raise ConfigError(f"expected a link with a document of at most {MAX_BYTES} bytes, got a larger one")
        if not unpacker.eof:
            raise ValueError
        return content.decode()
    except (ValueError, binascii.Error, zlib.error):
        raise ConfigError("this link is broken; its end may be missing") from None
