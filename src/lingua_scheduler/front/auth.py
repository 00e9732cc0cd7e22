"""Who somebody is, and which doors are open to him. Every door asks here, and nowhere else.

A door stands for a scope. Its rule says who may come in: whoever shows a token with that scope (`token`), everybody
(`open`), or whoever comes from one of its networks, and besides whoever has a token. Without any token in the settings
there is nobody to tell apart: doors with the rule `token` are open, and the server listens on loopback only.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lingua_scheduler.config.doors import networks_of
from lingua_scheduler.core.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lingua_scheduler.config.doors import Auth as AuthSettings
    from lingua_scheduler.core.seat import Cookie

SCOPES: Final = frozenset({"node", "session", "admin", "metrics"})
#: The door of pages and documents: any token opens it.
PAGE: Final = "page"
#: What a scope opens beside its own door.
_OPENS: Final = {"admin": frozenset({"admin", "session", "metrics"})}

_BEARER: Final = "bearer "
#: A browser cannot set headers on a WebSocket: it offers these two protocols, and we take the first.
SUBPROTOCOL: Final = "lingua.v1"
_TOKEN_PROTOCOL: Final = "token."  # noqa: S105 - it comes before one


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever holds a credential. What he makes is his by his name; "" is nobody in particular."""

    name: str
    scopes: frozenset[str]
    #: He may look at everything that his scopes open, and change nothing.
    reads_only: bool = False

    def opens(self, scope: str) -> bool:
        """Whether he comes in at the door of this scope."""
        return _opens(self.scopes, scope)

    @property
    def is_admin(self) -> bool:
        """Whether he sees what is of others, too."""
        return "admin" in self.scopes


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a WebSocket. Without a principal it must show a token in its first message; nobody may."""

    principal: Principal | None
    #: Its address; "" if it has none.
    client: str
    #: The page that it is, if it is one.
    origin: str | None
    trace_id: str
    #: What stood behind the question mark.
    query: str = ""
    #: What the browser of somebody who is signed in has shown, if that let him in.
    cookie: Cookie | None = None


@dataclass(frozen=True, slots=True)
class _Token:
    digest: bytes
    principal: Principal


class Auth:
    """The tokens and the rules of the doors."""

    def __init__(self, settings: AuthSettings) -> None:
        self._tokens = _tokens_of(settings)
        rules = {
            "node": settings.nodes,
            "session": settings.sessions,
            "admin": settings.admin,
            "metrics": settings.metrics,
            PAGE: settings.pages,
        }
        self._lets_in = {scope: self._judge(rule) for scope, rule in rules.items()}
        self._key = _key_of(settings)
        #: Whoever gets in without showing who he is. Without tokens he may do everything.
        self._anybody = {scope: Principal("", (frozenset() if self._tokens else SCOPES) | {scope}) for scope in rules}

    @property
    def has_tokens(self) -> bool:
        """Whether anybody can be told apart from anybody else."""
        return bool(self._tokens)

    def is_operator(self, name: str) -> bool:
        """Whether a token of this name opens the operator's door."""
        return any(token.principal.name == name and token.principal.is_admin for token in self._tokens)

    def admit(self, scope: str, client: str = "", token: str | None = None) -> Principal | Refusal:
        """Whoever knocks at the door of this scope. `token` is what he shows, `client` is where he comes from."""
        known = self._find(token) if token is not None else None
        if known is not None and _opens(known.scopes, scope):
            return known
        if self._lets_in[scope](client):
            stranger = self._anybody[scope]
            return stranger if known is None else Principal(known.name, stranger.scopes)
        if token is None:
            return Refusal("UNAUTHENTICATED", "This door needs a token: Authorization: Bearer <token>.")
        if known is None:
            return Refusal("UNAUTHENTICATED", "This token is not valid.")
        return Refusal("FORBIDDEN", f"This token has not got the scope {scope}.")

    def admit_socket(self, scope: str, client: str, token: str | None) -> Principal | Refusal | None:
        """The same for a WebSocket, which may show its token in its first message: None, if it must."""
        admitted = self.admit(scope, client, token)
        return None if isinstance(admitted, Refusal) and token is None else admitted

    def admit_first(self, scope: str, peer: Peer, token: str | None) -> Principal | Refusal:
        """Whoever shows this token in his first message; None: he shows none there.

        Who was known when he connected stays who he is.
        """
        if peer.principal is not None and (peer.principal.name or token is None):
            return peer.principal
        if token is None:
            return Refusal("UNAUTHENTICATED", "This door needs a token, in a header or in the first message.")
        return self.admit(scope, peer.client, token)

    def node_secret(self, node_id: str, principal: Principal, epoch: str) -> str | None:
        """What a node shows with its HTTP messages, so that nobody else speaks for it; None without tokens.

        It names the epoch: whoever had the id before cannot speak for it any more.
        """
        if not self._tokens:
            return None
        said = b"\0".join(part.encode() for part in ("node", principal.name, node_id, epoch))
        return f"{epoch}.{hmac.new(self._key, said, hashlib.sha256).hexdigest()}"

    def check_node(self, principal: Principal, node_id: str, secret: str | None) -> str | Refusal:
        """The epoch in which this principal registered this node, wherever that was; "" without tokens.

        Whether it is still that epoch, the engine knows.
        """
        if not self._tokens:
            return ""
        if secret is None:
            return Refusal("UNAUTHENTICATED", "node_secret: missing; it came with the answer to the registration.")
        epoch = secret.rpartition(".")[0]
        expected = self.node_secret(node_id, principal, epoch) or ""
        if not hmac.compare_digest(expected.encode(), secret.encode()):
            return Refusal("FORBIDDEN", "node_secret: not the one of this node and this token; register again.")
        return epoch

    def _judge(self, rule: str) -> Callable[[str], bool]:
        """Whether an address is let in without a token."""
        if rule == "open" or (rule == "token" and not self._tokens):
            return lambda _client: True
        if rule == "token":
            return lambda _client: False
        networks = networks_of(rule)

        def is_inside(client: str) -> bool:
            address = address_of(client)
            return address is not None and any(address in network for network in networks)

        return is_inside

    def _find(self, token: str) -> Principal | None:
        """All are compared, whatever is found: the time it takes tells nothing."""
        digest, found = _digest(token), None
        for known in self._tokens:
            if hmac.compare_digest(known.digest, digest):
                found = known.principal
        return found


def token_in(headers: Mapping[str, str], subprotocols: list[str] | None = None) -> str | None:
    """The token that somebody shows in a header, or as a subprotocol `token.<token>`. Never one in a URL."""
    said = headers.get("authorization")
    if said is not None:
        # Whatever else it is, it is no token that anybody was given.
        return said[len(_BEARER) :].strip() if said[: len(_BEARER)].lower() == _BEARER else ""
    shown = [one for one in subprotocols or () if one.startswith(_TOKEN_PROTOCOL)]
    return shown[0].removeprefix(_TOKEN_PROTOCOL) if shown else None


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address; one of version 4 that is written as one of version 6 is what it is."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _opens(scopes: frozenset[str], scope: str) -> bool:
    return scope == PAGE or any(scope in _OPENS.get(one, (one,)) for one in scopes)


def _tokens_of(settings: AuthSettings) -> list[_Token]:
    """A token in several lists has all their scopes; one without a name is named by what it is."""
    lists = {
        "node": settings.node_tokens,
        "session": settings.session_tokens,
        "admin": settings.admin_tokens,
        "metrics": settings.metrics_tokens,
    }
    scopes: dict[tuple[str, str], set[str]] = {}
    for scope, tokens in lists.items():
        for one in tokens:
            name, _, token = one.rpartition(":")
            scopes.setdefault((name, token), set()).add(scope)
    return [
        _Token(_digest(token), Principal(name or f"token-{_digest(token).hex()[:12]}", frozenset(held)))
        for (name, token), held in scopes.items()
    ]


def _key_of(settings: AuthSettings) -> bytes:
    """The key of the nodes' secrets: the same wherever the same settings are."""
    if settings.secret:
        made_of = [settings.secret]
    else:
        lists = (settings.node_tokens, settings.session_tokens, settings.admin_tokens, settings.metrics_tokens)
        made_of = sorted({one.rpartition(":")[2] for tokens in lists for one in tokens})
    return hashlib.sha256("\n".join(("lingua node secret", *made_of)).encode()).digest()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
