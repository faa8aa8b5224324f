"""The web face of the refund desk. It starts runs and shows them; workers execute them (`outlast worker agent.py`)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from agent import handle
from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from outlast import AlreadyAnswered, App, ApprovalNotFound, OutlastError, RunNotFound, StreamReset

outlast_app = App(os.environ.get("OUTLAST_URL"), worker=False)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Keep the store open while the server runs."""
    async with outlast_app:
        yield


web = FastAPI(title="Refund desk", lifespan=lifespan)


class Request(BaseModel):
    """What a customer asks for. `id` names the request: sent again, it is the same one."""

    id: str
    text: str


class Answer(BaseModel):
    """What a person of the finance team decides."""

    approved: bool
    by: str
    note: str = ""


@web.post("/requests", status_code=202)
async def ask(request: Request) -> dict[str, str]:
    """Take a request. It is kept, whatever happens to this process, once this has answered."""
    try:
        run = await outlast_app.start(handle(request.text), id=request.id)
    except OutlastError as error:  # the id is taken by another request
        raise HTTPException(409, str(error)) from error
    return {"id": run.id}


@web.get("/requests/{id}")
async def show(id: str) -> dict[str, object]:
    """Say how far a request is."""
    try:
        info = await (run := await outlast_app.get(id)).info()
    except RunNotFound as error:
        raise HTTPException(404, str(error)) from error
    usage = await run.usage()
    return {"id": id, "status": info.status, "waits_for": info.detail, "tokens": usage.spent.total}


@web.get("/requests/{id}/events")
async def events(id: str, last_event_id: Annotated[int, Header()] = 0) -> StreamingResponse:
    """Send the answer as it is written, as server-sent events. A browser that reconnects goes on where it was."""

    async def lines() -> AsyncIterator[str]:
        run = await outlast_app.get(id)
        async for item in run.stream("tokens", after=last_event_id):
            if isinstance(item, StreamReset):  # the worker died in the middle of an answer: drop what came after this
                yield f"event: reset\nid: {item.position}\ndata: {item.position}\n\n"
            else:
                yield f"id: {item.position}\ndata: {json.dumps(item.value)}\n\n"
        yield f"event: end\ndata: {json.dumps(await run.status())}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@web.get("/approvals")
async def approvals() -> list[dict[str, object]]:
    """List what the finance team is asked."""
    return [{"id": a.id, "run": a.run, "question": a.question, "data": a.data} for a in await outlast_app.approvals()]


@web.post("/approvals/{id}")
async def decide(id: str, answer: Answer) -> dict[str, str]:
    """Answer. Whoever is second is told so."""
    act = outlast_app.approve if answer.approved else outlast_app.reject
    try:
        await act(id, by=answer.by, note=answer.note)
    except AlreadyAnswered as error:
        raise HTTPException(409, str(error)) from error
    except ApprovalNotFound as error:
        raise HTTPException(404, str(error)) from error
    return {"id": id}
