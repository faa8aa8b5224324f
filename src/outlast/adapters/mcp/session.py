"""A session with a server whose calls, made in the body of a run, are steps."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, TypeVar

import anyio
import mcp_types as types
from mcp import Client, ClientSession, MCPError
from mcp.client.session import ClientRequestContext
from pydantic import BaseModel

from outlast.adapters.journaled import in_body
from outlast.adapters.mcp.asking import Questions, under_way
from outlast.adapters.mcp.results import (
    FailedCall,
    UnsentCall,
    call_result,
    error_of,
    failure_of,
    is_question,
    kept,
    result_of,
)
from outlast.adapters.mcp.rounds import Rounds
from outlast.core.definitions import AsyncStep
from outlast.core.effects import InBody
from outlast.core.errors import WrongUse
from outlast.core.identity import here, placed
from outlast.core.records import Effect
from outlast.core.settings import Settings
from outlast.runtime.operations import step_here

Result = TypeVar("Result", bound=BaseModel)

KEY = "outlast/idempotency_key"
"""Under which a call has its key in `_meta`."""

READS = Settings().with_(effect="pure")


class DurableSession:
    """A session with an MCP server: `async with DurableSession(Client(server)) as session`.

    In the body of a native workflow what it asks the server is recorded: calls of tools, and lists, resources and
    prompts, which are `pure`. Elsewhere (outside of a run, in a step) it does what the client does.

    - `client`: an `mcp.Client`, entered and left together with this; or an `mcp.ClientSession` that is open.
    - `effects`: what tools do to the world, by name: `"pure"`, `"idempotent"` or `"once"`, or a dict of what
      `outlast.effect` takes, with `effect`. A `confirm` is asked with the key and the tool's arguments by their names,
      and answers `Happened({"content": [...]})`, as the protocol has results, or `Happened("text")`. What is not named
      goes by the hints of the tools that `list_tools` has told: `readOnlyHint` is `pure`, `idempotentHint: false` is
      `once`; all else is `idempotent`.

    A call sends its idempotency key in `_meta`, as `outlast/idempotency_key`. What a server asks people while it is
    called becomes an approval, where the client has `elicitation_callback=outlast.mcp.elicit`. What is not here is on
    `client`, and is not recorded.
    """

    def __init__(self, client: Client | ClientSession, *, effects: Mapping[str, Any] | None = None) -> None:
        self.client = client
        self._effects = {name: _settings(name, said) for name, said in (effects or {}).items()}
        self._hints: dict[str, types.ToolAnnotations] = {}
        self._listed: set[str] = set()  # cursors of lists that the session itself has not seen
        self._one_at_a_time = anyio.Lock()

    async def __aenter__(self) -> Self:
        if isinstance(self.client, Client):
            with placed(None):  # what serves the connection is no part of a run: its callbacks may come at any time
                await self.client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        if isinstance(self.client, Client):
            await self.client.__aexit__(*error)

    @property
    def session(self) -> ClientSession:
        """The session of the protocol."""
        return self.client.session if isinstance(self.client, Client) else self.client

    # -- tools -----------------------------------------------------------------------

    async def list_tools(self, *, cursor: str | None = None) -> types.ListToolsResult:
        """List the server's tools. The hints of those that it lists say what their calls do."""
        params = types.PaginatedRequestParams(cursor=cursor)
        made: list[bool] = []

        async def send() -> types.ListToolsResult:
            made.append(True)
            return await self.session.list_tools(params=params)

        listed = await self._read("mcp_list_tools", send, types.ListToolsResult, [cursor])
        if not made:
            self._listed.add(cursor or "")
        self._hints |= {tool.name: tool.annotations for tool in listed.tools if tool.annotations is not None}
        return listed

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        read_timeout_seconds: float | None = None,
        progress_callback: Any = None,
        meta: Mapping[str, Any] | None = None,
    ) -> types.CallToolResult:
        """Call a tool; return its result, that of an error of the tool, too.

        `key` tells the call from others in the run: the id that a model has given it. All else is as in
        `mcp.Client.call_tool`. Raises MCPError, which is recorded as well; RuntimeError for a result that is not what
        the server's own schema says.
        """
        options: dict[str, Any] = {
            "read_timeout_seconds": read_timeout_seconds,
            "progress_callback": progress_callback,
            "meta": dict(meta or {}),
        }
        if not in_body():
            return await self._plain_call(name, arguments, options)
        _check_native()
        rounds = Rounds(name)
        while True:
            step = self._step(name, options, rounds)
            asked = step if key is None else step.options(key=rounds.key(key))
            call = asked(**(arguments or {}))
            try:
                outcome = await call
            except FailedCall as failed:
                if rounds.begins_anew(failed):
                    continue
                raise error_of(failed) from failed
            finally:
                rounds.first = rounds.first or call.key  # known once it was issued
            if not is_question(outcome):
                return result_of(outcome)
            await rounds.answer(outcome, self._answer)

    async def _plain_call(self, name: str, arguments: Any, options: dict[str, Any]) -> types.CallToolResult:
        result = await self.client.call_tool(name, arguments, **options | {"meta": options["meta"] or None})
        assert isinstance(result, types.CallToolResult)
        return result

    def _step(self, name: str, options: dict[str, Any], rounds: Rounds) -> AsyncStep[..., Any]:
        settings = self.settings_of(name)

        async def attempt(**arguments: Any) -> Any:
            place = step_here("call_tool()")
            try:
                await self._list_again()
            except MCPError as error:
                raise failure_of(error, UnsentCall) from error
            meta = options["meta"] | {KEY: place.idempotency_key}
            questions = Questions(rounds.answered)
            sent = rounds.sends(place.attempt, once=settings.effect is Effect.ONCE)
            try:
                result = await self._send(name, arguments, options | sent | {"meta": meta}, questions)
            except MCPError as error:
                if not questions.asked:
                    raise failure_of(error) from error
                result = None  # it says that a question was dismissed
            return {"asked": questions.asked} if questions.asked else call_result(result)

        attempt.__annotations__.clear()
        return AsyncStep(attempt, re.sub(r"\W+", "_", name), settings)

    async def _send(self, name: str, arguments: Any, options: dict[str, Any], questions: Questions) -> Any:
        options |= {"allow_input_required": True, "allow_claimed": True}
        if self.session.protocol_version in types.version.MODERN_PROTOCOL_VERSIONS:
            return await self.session.call_tool(name, arguments, **options)
        async with self._one_at_a_time:  # what an older server asks does not say for which call
            under_way[self.session] = questions
            try:
                return await self.session.call_tool(name, arguments, **options)
            finally:
                del under_way[self.session]

    async def _list_again(self) -> None:
        """Let the session itself see the lists that were told from the journal: it checks calls and results by them."""
        while self._listed:
            cursor = next(iter(self._listed))
            await self.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor or None))
            self._listed.discard(cursor)  # not before: the next call is to try again where this one failed

    async def _answer(self, request: Any, key: str) -> BaseModel:
        """Return what a server needs before it goes on, and that no person answers: by the client's own callbacks."""

        async def send() -> BaseModel:
            with placed(None):
                context = ClientRequestContext(session=self.session, request_id=key)
                response = await self.session.dispatch_input_request(context, request)
            if isinstance(response, types.ErrorData):
                raise MCPError.from_error_data(response)
            return response

        kind: Any = types.CreateMessageResult if request.method == "sampling/createMessage" else types.ListRootsResult
        return await self._read("mcp_answer", send, kind, [key])

    def settings_of(self, name: str) -> Settings:
        """Return how the calls of a tool are run."""
        if name in self._effects:
            return self._effects[name]
        hints = self._hints.get(name)
        if hints is not None and hints.read_only_hint:
            return READS
        if hints is not None and hints.idempotent_hint is False:
            return Settings().with_(effect="once", definite=UnsentCall)
        return Settings()

    # -- what is read ------------------------------------------------------------------

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        """List the server's resources."""
        params = types.PaginatedRequestParams(cursor=cursor)
        send = lambda: self.session.list_resources(params=params)  # noqa: E731
        return await self._read("mcp_list_resources", send, types.ListResourcesResult, [cursor])

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read a resource."""
        send = lambda: self.session.read_resource(uri)  # noqa: E731
        return await self._read("mcp_read_resource", send, types.ReadResourceResult, [uri])

    async def list_prompts(self, *, cursor: str | None = None) -> types.ListPromptsResult:
        """List the server's prompts."""
        params = types.PaginatedRequestParams(cursor=cursor)
        send = lambda: self.session.list_prompts(params=params)  # noqa: E731
        return await self._read("mcp_list_prompts", send, types.ListPromptsResult, [cursor])

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> types.GetPromptResult:
        """Get a prompt, with these arguments in it."""
        send = lambda: self.session.get_prompt(name, arguments)  # noqa: E731
        return await self._read("mcp_get_prompt", send, types.GetPromptResult, [name, arguments])

    async def _read(
        self, step: str, send: Callable[[], Awaitable[Any]], kind: type[Result], arguments: list[Any]
    ) -> Result:
        if not in_body():
            return kind.model_validate(await send())
        _check_native()

        async def attempt(*_: Any) -> Any:
            try:
                return kept(await send())
            except MCPError as error:
                raise failure_of(error) from error

        attempt.__annotations__.clear()
        try:
            return kind.model_validate(await AsyncStep(attempt, step, READS)(*arguments))
        except FailedCall as failed:
            raise error_of(failed) from failed


def _settings(name: str, said: Any) -> Settings:
    changes = said if isinstance(said, dict) else {"effect": said}
    settings = Settings().with_(**changes)
    if settings.effect is Effect.ONCE and not settings.definite:
        return settings.with_(definite=UnsentCall)
    return settings


def _check_native() -> None:
    """Raise WrongUse in the body of a workflow that has no room for a connection."""
    place = here.get()
    if isinstance(place, InBody) and getattr(place.ops, "scopes", None) is None:
        raise WrongUse(
            f"run {place.ops.run_id}: a session with an MCP server was used in the body of {place.ops.workflow}, which "
            'has no connections; make the workflow a native one: @workflow(loop="native")'
        )
