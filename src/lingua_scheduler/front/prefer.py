"""What a caller would rather have: the header `Prefer` (RFC 7240). What nobody here knows is passed over."""

from __future__ import annotations

import functools
import re
from typing import Final

_WAITS: Final = re.compile(rb"""(?:^|,)\s*wait\s*=\s*"?(\d{1,6})"?\s*(?:$|[,;])""", re.IGNORECASE).search


@functools.lru_cache(maxsize=64)
def preferred_wait_ms(header: bytes) -> int:
    """How long somebody would rather wait for the end of what he asks for than ask again; 0: not at all."""
    found = _WAITS(header)
    return 0 if found is None else int(found[1]) * 1_000
