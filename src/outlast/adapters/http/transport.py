"""The transport: what is below a client and sends its requests, each as a step where a run's body makes it.

In a native workflow an answer passes to the client while its step still receives it; its last piece is given once
the whole is recorded. In a deterministic one, whose body knows no time but that of its events, it is given as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

from outlast.adapters.http.answers import RefusedResponse, answer_of
from outlast.adapters.http.flavours import module_of, nothing_was_sent, transport_classes
from outlast.adapters.http.requests import Telling
from outlast.adapters.http.sending import Sending
from outlast.core.definitions import SyncStep
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import here
from outlast.core.settings import Settings
from outlast.runtime.publishing import Stream

Effect = Literal["pure", "idempotent", "once"]


if TYPE_CHECKING:
    import httpx
    import httpx2

    class _Transport(  # type: ignore[misc]  # they differ in whose requests they take
        httpx.BaseTransport, httpx.AsyncBaseTransport, httpx2.BaseTransport, httpx2.AsyncBaseTransport
    ): ...

else:
    _Transport = type("_Transport", transport_classes(), {})


class DurableTransport(_Transport):
    """Below a client that is built on httpx or httpx2: `httpx.AsyncClient(transport=DurableTransport())`.

    Each request that the body of a run makes is a step: its answer is recorded, and not asked for again. Elsewhere
    (outside of a run, in a step) the request is sent as if this were not there.

    - `transport`: what sends the requests; by default the client's own kind, with its usual settings.
    - `effect`: what requests do to the world: `"pure"` (models, reads; the default), `"idempotent"` or `"once"`, or a
      function that is given a request and says so. POST and PATCH requests of the latter two get an `Idempotency-Key`.
    - `confirm(key, request, body)`: for `once` requests, tells what became of one in doubt. `request` is its method and
      URL (`"POST https://api.example.com/v1/charges"`), `body` a digest; `Happened({"status": 200, "body": "..."})`.
    - `spends`: its requests call models, so that a run's budget is looked at before the first of them, too.
    - `stream`: the name of a stream of the run, to which the events of an answer (server-sent events) are written while
      they come.
    - `identify`: headers that tell requests apart, beside method, URL and body: `["x-account"]`. They are not recorded.
    - `ignore`: headers, and parameters of the query, that tell nothing apart: others each time, or after a crash.

    Raises WrongUse for what makes no sense.
    """

    def __init__(
        self,
        transport: Any = None,
        *,
        effect: Effect | Callable[[Any], Effect] = "pure",
        confirm: Callable[..., Any] | None = None,
        spends: bool = False,
        stream: str | None = None,
        identify: Iterable[str] = (),
        ignore: Iterable[str] = (),
    ) -> None:
        self._given = transport
        self._made: dict[tuple[str, str], Any] = {}
        self._effect = effect
        self._confirm = confirm
        self._spends = spends
        self._told = None if stream is None else Stream(stream).write
        self._telling = Telling(identify, ignore)
        if isinstance(effect, str):
            self._settings(effect, ())
        elif not callable(effect):
            raise WrongUse(f"DurableTransport(effect={effect!r}): must be an effect, or a function that says one")

    # -- what clients call -----------------------------------------------------------

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, or give its recorded answer."""
        module, place = module_of(request), here.get()
        inner = self._inner(module, "AsyncHTTPTransport")
        if not isinstance(place, InBody):
            return await inner.handle_async_request(request)
        this = self._sending(module, place, request, await request.aread())
        if this.is_live():
            return await this.live(inner)

        async def attempt(request: str, body: str) -> Any:
            return await this.receive(inner, None)

        this.call = this.step(attempt)(this.asked.line, this.asked.digest)
        try:
            return this.respond(answer_of(await this.call))
        except Exception as error:  # noqa: BLE001 - whatever a step raises
            return this.fail(error)
        finally:
            this.over()

    def handle_request(self, request: Any) -> Any:
        """Do the same for a client without an event loop."""
        module, place = module_of(request), here.get()
        inner = self._inner(module, "HTTPTransport")
        if not isinstance(place, InBody):
            return inner.handle_request(request)
        if not place.ops.blocking:
            line = self._telling.asked(request, b"", "").line
            raise WrongUse(
                f"run {place.ops.run_id}: {line} was sent by a client that blocks, in the async workflow "
                f"{place.ops.workflow}, where it would hold up the worker; use an async client, or asyncio.to_thread"
            )
        this = self._sending(module, place, request, request.read())

        def attempt(request: str, body: str) -> Any:
            return this.receive_blocking(inner)

        step: SyncStep[..., Any] = SyncStep(attempt, this.asked.step, this.settings)
        this.call = step.call(this.asked.line, this.asked.digest)
        try:
            return this.respond(answer_of(this.call.result()))
        except Exception as error:  # noqa: BLE001 - whatever a step raises
            return this.fail(error)
        finally:
            this.over()

    def close(self) -> None:
        """Close what sends requests for clients without an event loop."""
        for transport in self._inners("HTTPTransport"):
            transport.close()

    async def aclose(self) -> None:
        """Close what sends requests for async clients."""
        for transport in self._inners("AsyncHTTPTransport"):
            await transport.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    # -- settings --------------------------------------------------------------------

    def _inner(self, module: ModuleType, kind: str) -> Any:
        if self._given is not None:
            return self._given
        made = self._made.get((module.__name__, kind))
        if made is None:
            made = self._made[module.__name__, kind] = getattr(module, kind)()
        return made

    def _inners(self, kind: str) -> list[Any]:
        method = "close" if kind == "HTTPTransport" else "aclose"
        if self._given is not None:
            return [self._given] if hasattr(self._given, method) else []
        return [made for (_, its), made in self._made.items() if its == kind]

    def _sending(self, module: ModuleType, place: InBody, request: Any, body: bytes) -> Sending:
        what = self._telling.asked(request, body, place.ops.origin())
        effect = self._effect if isinstance(self._effect, str) else self._effect(request)
        settings = self._settings(effect, (RefusedResponse, *nothing_was_sent(module)))
        return Sending(module, place, request, what, settings, self._telling.beside(request), self._told)

    def _settings(self, effect: str, definite: tuple[type[BaseException], ...]) -> Settings:
        chosen: dict[str, Any] = {"effect": effect, "spends": self._spends}
        if effect == "once":
            chosen |= {"definite": definite, "confirm": self._confirm}
        return Settings().with_(**chosen)
