"""With what requests are signed for the store behind us: fixed keys, or such as are renewed."""

import asyncio
import logging
import time
from collections.abc import Callable

from trackside.errors import TracksideError
from trackside.storage.instance_credentials import Keys

logger = logging.getLogger(__name__)

RENEW_SECONDS = 300.0
"""Before their end; those who give them have new ones by then."""


class UpstreamCredentials:
    def __init__(self, fetch: Callable[[], Keys]) -> None:
        """The first are fetched at once: who has none is not started."""
        self._fetch = fetch
        self._keys = fetch()
        self._lock = asyncio.Lock()

    async def get(self) -> Keys:
        """The old ones for as long as they are good when new ones cannot be had."""
        if self._keys.expires - time.time() > RENEW_SECONDS:
            return self._keys
        async with self._lock:
            if self._keys.expires - time.time() <= RENEW_SECONDS:
                try:
                    self._keys = await asyncio.to_thread(self._fetch)
                except TracksideError as error:
                    logger.warning("the keys for the store are not renewed: %s", error)
        return self._keys
