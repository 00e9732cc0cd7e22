"""The catalog refresher: asks the hub now and then which services there are, so that nobody else ever has to.

What the hub said last counts until it says something else, however long it is away. Before it has said anything, and
if there is none, a file counts. Nothing but the configured address is ever asked: a hub that sends us elsewhere has not
answered.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from lingua_scheduler.core.catalog import MAX_BYTES, Catalog, NoCatalog, read_catalog
from lingua_scheduler.logs import get_log
from lingua_scheduler.loops.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from lingua_scheduler.config.catalog import Catalog as Settings

#: After so many failures in a row the hub is asked less often, twice as seldom each time.
PATIENT_FAILURES: Final = 3

log = get_log(__name__)


class CatalogRefresher(Loop):
    """Holds the catalog, and says where it is from and how old it is."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` tells seconds."""
        super().__init__(settings.refresh_interval_ms)
        self._settings = settings
        self._clock = clock
        self._tag = ""
        #: None: there is none.
        self.catalog: Catalog | None = None
        self.source: Literal["hub", "file", ""] = ""
        #: When it was last heard that this is so, and, since then, how often that could not be heard, and why.
        self._refreshed_at: float | None = None
        #: When whoever is asked first, the hub or else the file, was last heard; until then, when that began.
        self._heard_at = clock()
        self.failures = 0
        self.error = ""

    @property
    def age_ms(self) -> int | None:
        """How long ago it was heard; None: there is no catalog."""
        return None if self._refreshed_at is None else round(1000 * (self._clock() - self._refreshed_at))

    @property
    def unheard_ms(self) -> int | None:
        """How long ago whoever should tell it did, a file in place of the hub not counted; None: nobody should."""
        if not (self._settings.url or self.source):
            return None
        return round(1000 * (self._clock() - self._heard_at))

    @property
    def is_stale(self) -> bool:
        """Whether somebody should look why it is not refreshed."""
        return self.failures >= PATIENT_FAILURES

    async def turn(self) -> bool:
        """Ask once."""
        try:
            if self._settings.url:
                await self._ask_hub()
            else:
                self._read_file()
        except NoCatalog as why:
            self._failed(str(why))
        else:
            self._succeeded()
        return False

    async def _ask_hub(self) -> None:
        # Few have a hub, and nobody else waits for its client to be loaded.
        from lingua_scheduler.loops.catalog_hub import ask_hub  # noqa: PLC0415

        index = await ask_hub(self._settings.url, self._tag, self._settings.timeout_ms)
        if index.said is not None:
            self.catalog, self._tag = read_catalog(index.said), index.tag
        self.source, self._refreshed_at = "hub", self._clock()

    def _read_file(self) -> None:
        """A file that is not there says nothing."""
        if not self._settings.file:
            return
        try:
            with Path(self._settings.file).open("rb") as file:
                self.catalog = read_catalog(file.read(MAX_BYTES + 1))
        except FileNotFoundError:
            self.catalog, self.source, self._refreshed_at = None, "", None
        except OSError as error:
            raise NoCatalog(f"{self._settings.file}: {error.strerror}") from None
        except NoCatalog as error:
            raise NoCatalog(f"{self._settings.file}: {error}") from None
        else:
            self.source, self._refreshed_at = "file", self._clock()

    def _succeeded(self) -> None:
        if self.is_stale:
            log.warning("catalog", number=self.failures, detail="refreshed again, after so many failures")
        self.failures, self.error, self._heard_at = 0, "", self._clock()
        self._interval_s = self._settings.refresh_interval_ms / 1000

    def _failed(self, why: str) -> None:
        self.failures, self.error = self.failures + 1, why
        if self._settings.url and self.source != "hub":
            # Only until the hub has answered for the first time; that it did not is what there is to say.
            with contextlib.suppress(NoCatalog):
                self._read_file()
        usual_ms, later = self._settings.refresh_interval_ms, max(0, self.failures - PATIENT_FAILURES + 1)
        self._interval_s = min(usual_ms * 2 ** min(later, 16), self._settings.max_interval_ms) / 1000
        if self.failures in {1, PATIENT_FAILURES}:
            log.warning(
                "catalog", reason=why, detail="it was not refreshed; the next try follows", seconds=self._interval_s
            )
