"""What a request asks for beside its body: how long to wait, for which version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from effect_broker.domain.errors import InvalidRequest, PreconditionFailed
from effect_broker.surfaces.serving import WAIT_SECONDS_MAX

_WAIT: Final = re.compile(r"wait\s*=\s*\"?([0-9]{1,9})\"?", re.IGNORECASE)
_TAGS: Final = re.compile(r'\s*(?:W/)?"[^"]*"\s*(?:,\s*(?:W/)?"[^"]*"\s*)*')
_TAG: Final = re.compile(r'(W/)?"([^"]*)"')


def preferred_wait(headers: Iterable[str]) -> timedelta | None:
    """Return how long an answer may be held back (RFC 7240), capped; None: not asked.

    A preference that cannot be read is no error: it is not applied.
    """
    for preference in ",".join(headers).split(","):
        match = _WAIT.fullmatch(preference.partition(";")[0].strip())
        if match:
            return timedelta(seconds=min(int(match[1]), WAIT_SECONDS_MAX))
    return None


def applied(patience: timedelta | None) -> dict[str, str]:
    """Return the header that says which wait was applied."""
    if patience is None:
        return {}
    return {"Preference-Applied": f"wait={int(patience.total_seconds())}"}


@dataclass(frozen=True, slots=True)
class Precondition:
    """The versions that a request is meant for (`If-Match`); None: for any."""

    versions: frozenset[str] | None

    @classmethod
    def of(cls, headers: Iterable[str]) -> Self:
        """Read the header; a weak tag matches nothing, as RFC 9110 says.

        Raises:
            InvalidRequest: it is no list of entity tags.
        """
        text = ",".join(headers).strip()
        if text in ("", "*"):
            return cls(None)
        if not _TAGS.fullmatch(text):
            raise InvalidRequest('If-Match must be the effect\'s ETag, such as "3".')
        found = _TAG.findall(text)
        return cls(frozenset(tag for weak, tag in found if not weak))

    def names(self, version: int | None) -> bool:
        """Say whether a request is meant for this version."""
        return self.versions is None or str(version) in self.versions

    @property
    def only(self) -> int | None:
        """The one version that is named, where it is one that an effect can have."""
        if self.versions is None or len(self.versions) != 1:
            return None
        (tag,) = self.versions
        return int(tag) if re.fullmatch(r"[1-9][0-9]{0,8}", tag) else None

    def check(self, version: int | None) -> None:
        """Accept an effect at this version.

        Raises:
            PreconditionFailed: the request is meant for another.
        """
        if not self.names(version):
            raise PreconditionFailed(
                f"The effect is at version {version}; read it and decide anew.",
                version=version,
            )
