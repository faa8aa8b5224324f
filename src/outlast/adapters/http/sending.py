"""One request of a run's body: its step, and the response that is made of what the step's record has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any

from outlast.adapters.http.answers import (
    Answer,
    FailedResponse,
    answer_of,
    failure_of,
    is_tried_again,
    kept_headers,
    response_of,
)
from outlast.adapters.http.events import Listener
from outlast.adapters.http.flavours import async_stream
from outlast.adapters.http.passing import Passing
from outlast.adapters.http.requests import NO_BODY, Asked, outgoing
from outlast.adapters.http.under_way import Headers, begin
from outlast.core.definitions import AsyncStep, Call
from outlast.core.effects import InBody, InStep
from outlast.core.errors import WrongUse
from outlast.core.identity import derive
from outlast.core.settings import Settings
from outlast.runtime.operations import step_here
from outlast.runtime.run_usage import spent_nothing

SHORT_BYTES = 64_000
"""An answer that says that it has no more than this is given when it is there as a whole."""


def _is_short(response: Any) -> bool:
    """Tell whether an answer is so short that nobody would look at it before its end."""
    length = response.headers.get("content-length", "")
    return bool(length.isdecimal()) and int(length) <= SHORT_BYTES


class Sending:
    """See the top of this file. `told` hears the events of the answer, `beside` are headers that are not recorded.

    It is under way until `over` is called. Raises WrongUse where it could be taken for another that is.
    """

    def __init__(
        self,
        module: ModuleType,
        place: InBody,
        request: Any,
        asked: Asked,
        settings: Settings,
        beside: Headers,
        told: Callable[[Any], None] | None,
    ) -> None:
        self._alike = begin(place, asked, beside)
        self.asked = asked
        self.settings = settings
        self.call: Call[Any]
        self._module = module
        self._place = place
        self._request = request
        self._beside = beside
        self._tries = self._alike.tries
        self._told = told
        self._number = self._tries.take()
        self._branch = place.branch.current().path
        self._made = False  # it was sent in this execution of the run

    # -- in the step -----------------------------------------------------------------

    def _outgoing(self) -> Any:
        self._made = True
        place: InStep = step_here("DurableTransport")
        key = None
        if self.settings.effect != "pure" and self.asked.method not in NO_BODY:
            key = derive(place.incarnation, "http", self._branch, self.asked.digest, str(self._number))
        return outgoing(self._request, self.asked.body, key)

    async def receive(self, inner: Any, passing: Passing | None) -> Any:
        """Send it, receive the answer and return what is recorded of it. Raises FailedResponse."""
        response = await inner.handle_async_request(self._outgoing())
        status, headers, body = self._check(response), kept_headers(response), list[bytes]()
        listener = Listener(response.headers.get("content-type", ""), self._told)
        broke: Exception | None = None
        whole = True
        try:
            if passing is None or status >= 400 or _is_short(response):
                async for chunk in response.stream:
                    body.append(chunk)
                    listener.hear(chunk)
            else:
                passing.begin(status, headers)
                whole = await self._pass_on(response, body, listener, passing)
        except self._module.TransportError as error:
            broke = error
        finally:
            with contextlib.suppress(self._module.TransportError):
                await response.aclose()
        return self._recorded(status, headers, body, listener, broke, whole=whole)

    async def _pass_on(self, response: Any, body: list[bytes], listener: Listener, passing: Passing) -> bool:
        """Receive an answer and pass it to the client meanwhile; return False where that has closed it."""

        async def read() -> None:
            async for chunk in response.stream:
                body.append(chunk)
                passing.give(chunk)
                listener.hear(chunk)

        reading = asyncio.ensure_future(read())
        try:
            await asyncio.wait({reading, passing.closed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            was_closed = not reading.done()
            if was_closed:  # the client wants no more of it, or this attempt is being cancelled
                reading.cancel()
                await asyncio.wait({reading})
        if was_closed:
            del body[passing.taken :]
        else:
            reading.result()
        return not was_closed

    def receive_blocking(self, inner: Any) -> Any:
        """Do the same in a thread."""
        response = inner.handle_request(self._outgoing())
        status, headers, body = self._check(response), kept_headers(response), list[bytes]()
        listener = Listener(response.headers.get("content-type", ""), self._told)
        broke: Exception | None = None
        try:
            for chunk in response.stream:
                body.append(chunk)
                listener.hear(chunk)
        except self._module.TransportError as error:
            broke = error
        finally:
            response.close()
        return self._recorded(status, headers, body, listener, broke)

    def _check(self, response: Any) -> int:
        if response.status_code < 200:
            raise WrongUse(
                f"{self.asked.line} was answered with {response.status_code}: a connection that goes on as something "
                "else, such as a WebSocket, cannot be recorded; open it in a step"
            )
        return int(response.status_code)

    def _recorded(
        self,
        status: int,
        headers: list[tuple[str, str]],
        body: list[bytes],
        listener: Listener,
        broke: Exception | None,
        *,
        whole: bool = True,
    ) -> dict[str, Any]:
        listener.end()
        if self.asked.method in NO_BODY:  # it lists or looks up something, which no model answers
            spent_nothing()
        answer = Answer(status, headers, b"".join(body), [len(chunk) for chunk in body], whole)
        if broke is not None or status >= 400:
            raise failure_of(answer, self.asked.line, broke) from broke
        return answer.plain()

    # -- in the body -------------------------------------------------------------------

    def over(self, *_: object) -> None:
        """Its outcome is known."""
        self._alike.end(self._beside)

    def step(self, attempt: Callable[[str, str], Any]) -> AsyncStep[[str, str], Any]:
        """Return the step of this request alone. That its function says nothing of types saves looking them up."""
        attempt.__annotations__.clear()
        return AsyncStep(attempt, self.asked.step, self.settings)

    def is_live(self) -> bool:
        """Tell whether the answer can pass while it comes: the client is on the worker's own loop."""
        body = getattr(self._place.ops, "body", None)
        return getattr(self._place.ops, "scopes", None) is not None and body is not None and body.is_here()

    async def live(self, inner: Any) -> Any:
        """Send it, and return the response when that begins."""
        passing = Passing()

        async def attempt(request: str, body: str) -> Any:
            return await self.receive(inner, passing)

        self.call = self.step(attempt)(self.asked.line, self.asked.digest)
        recorded = self.call.start()
        recorded.add_done_callback(self.over)
        try:
            await asyncio.wait({recorded, passing.begun}, return_when="FIRST_COMPLETED")
        except asyncio.CancelledError as cancelled:
            recorded.cancel(*cancelled.args)
            await recorded  # a `once` request that was sent comes to its outcome first
            raise
        if not passing.begun.done():
            try:
                return self.respond(answer_of(await recorded))
            except Exception as error:  # noqa: BLE001 - whatever a step raises
                return self.fail(error)
        status, headers = passing.begun.result()

        async def pieces() -> AsyncIterator[bytes]:
            async for piece in passing.pieces(recorded):
                yield piece
            try:
                await recorded
            except FailedResponse as failed:
                self._tries.failed(self._number)
                raise self._broken(failed) from failed

        async def close() -> None:
            passing.close()
            await asyncio.wait({recorded})

        return self._module.Response(status, headers=headers, stream=async_stream(self._module, pieces(), close))

    def respond(self, answer: Answer) -> Any:
        """Return the response that was recorded."""

        def end() -> None:
            if not answer.whole:
                raise WrongUse(
                    f"run {self._place.ops.run_id}: {self.asked.line} ({self.call.key}) is read beyond where it was "
                    "closed before, so there is no more of it; let the code read it as it did"
                )

        return response_of(self._module, answer, end)

    def fail(self, error: Exception) -> Any:
        """Give the client the response that is the failure of a step, or raise what it has failed with."""
        if is_tried_again(error):
            self._tries.failed(self._number)
        if not isinstance(error, FailedResponse):
            raise error
        broken = self._broken(error) if error.broke else None

        def end() -> None:
            if broken is not None:
                raise broken from error

        at_once = not self._made and is_tried_again(error) and broken is None
        response = response_of(self._module, answer_of(error.answer), end, at_once=at_once)
        self._blame(response)  # the error that the client makes of it is this step's
        return response

    def _broken(self, failed: FailedResponse) -> Exception:
        kind = getattr(self._module, failed.broke, self._module.ReadError)
        error: Exception = kind(str(failed), request=self._request)
        self._blame(error)
        return error

    def _blame(self, thing: Any) -> None:
        blame = getattr(self._place.ops, "blame", None)
        if blame is not None:
            blame(thing, self.call.key)
