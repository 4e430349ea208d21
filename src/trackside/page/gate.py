"""Decides who a request is from, and whether it may be: sessions, access keys, this machine's user,
and the checks against other sites."""

import asyncio
import base64
import binascii
import hmac
import logging
import os
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.requests import Request

from trackside.page import peer
from trackside.page.access import Access, Person
from trackside.page.login_limit import LoginLimit
from trackside.page.login_link import Link, read_link
from trackside.page.problems import FromElsewhere, LoginNeeded, LoginRefused, NotAllowed, StalePage
from trackside.page.sessions import Sessions, csrf_of
from trackside.quick_dataclass import dataclass

logger = logging.getLogger(__name__)

PERSON = "trackside.person"
"""Where the server finds in a request's scope who has made it."""
CSRF_HEADER = "x-trackside-csrf"
SAME_SITE = ("same-origin", "none")
"""Of the header Sec-Fetch-Site: a script of this page, or a person."""
_MOST_CREDENTIALS = 1024
_MOST_WARNED = 20


@dataclass(frozen=True, slots=True)
class Visitor:
    person: Person
    csrf: str
    session: str = ""
    """The id of the session; empty without one."""


class Gate:
    def __init__(
        self, access: Access, sessions: Sessions | None, *, is_login_always: bool = False
    ) -> None:
        """Without sessions nobody can log in; with `is_login_always` this machine's user has to."""
        self._access = access
        self._is_login_always = is_login_always
        self._warned: set[str] = set()
        """Headers of proxies that were reported."""
        self._sessions = sessions
        self._limit = LoginLimit()
        self._own_secret = secrets.token_urlsafe(32)
        """Of the user of this machine, who has no session."""

    async def visitor(self, request: Request) -> Visitor:
        """`LoginNeeded` or `NotAllowed` for anybody else."""
        found = await asyncio.to_thread(self._found, request)
        if found is not None:
            request.scope[PERSON] = found.person
            return found
        if self._sessions is not None:
            raise LoginNeeded(
                "Log in to see the jobs of this server.",
                "Give an access key, or open the link that `trackside login --browser` prints.",
            )
        if not peer.has_loopback_host(request.headers):
            host = request.headers.get("host", "")
            raise FromElsewhere(
                f"This page is not at {host!r}: it is for this machine only.",
                "Open it at 127.0.0.1, or run `trackside server` for other machines.",
            )
        raise NotAllowed(
            "This page belongs to another user of this machine, or is behind a proxy.",
            "Run `trackside ui` for your own jobs, or `trackside server` with access keys.",
        )

    def _found(self, request: Request) -> Visitor | None:
        """Reads and sometimes writes files."""
        found = self._by_basic(request) or self._by_session(request)
        if found is None and self._is_here(request):
            found = Visitor(self._access.here(), csrf_of(self._own_secret))
        return found

    def is_valid(self, visitor: Visitor) -> bool:
        """Whether a visitor, known before, may still look: logged in, with a key that is good."""
        key_id = visitor.person.key_id
        if visitor.session and self._kept.find(visitor.session) is None:
            return False
        return not key_id or self._access.of_key(key_id) is not None

    def log_in(self, request: Request, key_id: str, secret: str) -> tuple[Visitor, str]:
        """By an access key; also the id of the new session. Blocks."""
        person = self._checked(request, key_id, secret)
        return self._begin(person)

    def log_in_by_link(self, request: Request, token: str) -> tuple[Visitor, str]:
        link, person = self._checked_link(request, token)
        if not self._kept.use(link):
            raise self._refused_link(request)
        return self._begin(person)

    def person_of_link(self, request: Request, token: str) -> Person:
        """Whom a link would log in; it stays unused."""
        return self._checked_link(request, token)[1]

    def _checked_link(self, request: Request, token: str) -> tuple[Link, Person]:
        self._limit.check(_source(request))
        link = read_link(token, self._access.secret_of, time.time())
        person = self._access.of_key(link.key_id) if link is not None else None
        if link is None or person is None or self._kept.was_used(link):
            raise self._refused_link(request)
        return link, person

    def _refused_link(self, request: Request) -> LoginRefused:
        source = _source(request)
        self._limit.note(source)
        logger.warning("a login link from %s was refused", source)
        return LoginRefused(
            "This link is wrong, was used before, or is older than five minutes.",
            "`trackside login --browser` prints another.",
        )

    def log_out(self, visitor: Visitor) -> None:
        if visitor.session:
            self._kept.end(visitor.session)

    def check_change(self, request: Request, visitor: Visitor) -> None:
        """Of a request that changes something."""
        check_origin(request)
        given = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode(), visitor.csrf.encode()):
            raise StalePage(
                f"The header {CSRF_HEADER} is missing, or of a session that is over.",
                "Reload the page.",
            )

    @property
    def _kept(self) -> Sessions:
        if self._sessions is None:
            raise LoginRefused(
                "Nobody can log in here: this page is for the user who started it.",
                "Run `trackside server` for others.",
            )
        return self._sessions

    def _begin(self, person: Person) -> tuple[Visitor, str]:
        session = self._kept.create(person.key_id)
        logger.info("%r logged in to the page with the key %s", person.name, person.key_id)
        return Visitor(person, csrf_of(session), session), session

    def _by_session(self, request: Request) -> Visitor | None:
        named = request.cookies.get(cookie_name(request), "")
        if not named or self._sessions is None or len(named) > _MOST_CREDENTIALS:
            return None
        session = self._sessions.find(named)
        person = self._access.of_key(session.key_id) if session is not None else None
        return None if person is None else Visitor(person, csrf_of(named), named)

    def _by_basic(self, request: Request) -> Visitor | None:
        """For programs: the key's id and secret as user and password."""
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic" or self._sessions is None:
            return None
        try:
            decoded = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            decoded = ""
        key_id, _, secret = decoded.partition(":")
        person = self._checked(request, key_id, secret)
        return Visitor(person, csrf_of(f"{key_id}:{secret}"))

    def _checked(self, request: Request, key_id: str, secret: str) -> Person:
        source = _source(request)
        self._limit.check(source)
        known = self._access.secret_of(key_id)
        is_right = hmac.compare_digest((known or "").encode(), secret.encode())
        person = self._access.of_key(key_id) if known and is_right else None
        if person is None:
            self._limit.note(source)
            # Not the id: it may be a secret in the wrong field.
            logger.warning("a login to the page from %s was refused", source)
            raise LoginRefused(
                "No access key has this id and this secret.",
                "`trackside keys create LABEL` on the server's machine makes one.",
            )
        return person

    def _is_here(self, request: Request) -> bool:
        """A request of this machine's user; others of this machine log in."""
        client, own = request.scope.get("client"), request.scope.get("server")
        if self._is_login_always or not client or not own:
            return False
        if not peer.is_loopback(client[0]) or not peer.has_loopback_host(request.headers):
            return False
        ends = (client[0], client[1]), (own[0], own[1])
        if not peer.is_of_user(*ends, os.geteuid()):
            return False
        is_direct = peer.is_local(request.headers, client[0])
        self._warn_of_proxy(peer.signs_of_proxy(request.headers), is_direct)
        return is_direct

    def _warn_of_proxy(self, signs: list[str], is_direct: bool) -> None:
        """Once for each header. `trackside ui` has nobody to keep out who could log in."""
        fresh = [name for name in signs if name not in self._warned]
        if not fresh or not self._access.is_server or len(self._warned) > _MOST_WARNED:
            return
        self._warned.update(fresh)
        taken = "is taken for this machine's user" if is_direct else "has to log in"
        logger.warning(
            "a proxy on this machine runs as the server's user and replaces Host: a request with "
            "the header %s %s. If others use the proxy, start the server with --page-login always.",
            ", ".join(fresh),
            taken,
        )


def check_origin(request: Request, *, must_be_named: bool = False) -> None:
    """A browser says from where a request comes; `FromElsewhere` unless that is this page. Of a
    form every browser names the origin; programs name none."""
    headers = request.headers
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin", "" if must_be_named else None)
    if site not in SAME_SITE or (origin is not None and not _is_own(origin, headers)):
        raise FromElsewhere(f"The page {origin or site!r} may not use this one.")


def cookie_name(request: Request) -> str:
    """With the port: browsers share cookies among all ports of a host."""
    port = urlsplit(f"//{request.headers.get('host', '')}").netloc.rpartition(":")[2]
    return f"trackside_{port}" if port.isdigit() else "trackside"


def is_secure(request: Request) -> bool:
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return (forwarded or request.url.scheme) == "https"


def _is_own(origin: str, headers: Mapping[str, str]) -> bool:
    forwarded = headers.get("x-forwarded-host", "").partition(",")[0].strip()
    return urlsplit(origin).netloc in {headers.get("host", ""), forwarded} - {""}


def _source(request: Request) -> str:
    """The client's address, and behind a proxy the one that it names."""
    client = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()[:64]
    return f"{client} for {forwarded!r}" if forwarded else client
