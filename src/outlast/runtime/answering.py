"""What people, and programs on their behalf, do with the approvals that runs ask for."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.codec.forms import SchemaForm, blank, check_form, fields_told, filled_in, required_of
from outlast.core.arguments import MAX_TEXT_BYTES, check_choice, check_text, check_whole
from outlast.core.errors import AlreadyAnswered, ApprovalNotFound, DecodingError, StoreError, WrongUse
from outlast.core.records import ApprovalRow, Standing
from outlast.runtime.infos import ApprovalInfo, shown_value
from outlast.stores.approval_verbs import AnswerApproval
from outlast.stores.protocol import ApprovalFilter
from outlast.stores.verbs import Done, Refused

if TYPE_CHECKING:
    from outlast.runtime.client import Client

STANDINGS = tuple(standing.value for standing in Standing)


async def find(
    client: Client, status: str | None, run: str | None, to: str | None, limit: int, after: str | None
) -> list[ApprovalInfo]:
    """Return approvals, oldest first."""
    call = "app.approvals"
    if status is not None:
        check_choice(call, "status", status, STANDINGS)
    if to is not None:
        check_text(call, "to", to, MAX_TEXT_BYTES)
    if after is not None:
        check_text(call, "after", after, MAX_TEXT_BYTES)
    check_whole(call, "limit", limit)
    wanted = ApprovalFilter(
        status=None if status is None else Standing(status),
        run=None if run is None else (await client._row(run)).pk,
        addressee=to,
    )
    above = (await _row(client, after)).pk if after is not None else 0
    rows = await client._read(lambda: client.store.approvals(wanted, limit=limit, after=above))
    ids = await client._ids({row.run for row in rows})
    return [_info(row, client, ids.get(row.run, "")) for row in rows]


async def _row(client: Client, id: str) -> ApprovalRow:
    found: list[ApprovalRow] = await client._read(lambda: client.store.approvals(ApprovalFilter(id=id), limit=1))
    if not found:
        raise ApprovalNotFound(f"no approval has the id {id!r} in {client.url}; `outlast approvals` lists them")
    return found[0]


async def answer(client: Client, id: str, *, approved: bool, by: str, note: str, form: Any) -> ApprovalInfo:
    """Answer an approval, once."""
    call = "app.approve" if approved else "app.reject"
    for name, text in (("id", id), ("by", by), ("note", note)):
        check_text(call, name, text, MAX_TEXT_BYTES)
    row = await _row(client, id)
    values = _filled_in(row, form, approved=approved)
    verb = AnswerApproval(
        id=id,
        run=row.run,
        status=Standing.APPROVED if approved else Standing.REJECTED,
        ask=os.urandom(8).hex(),
        by=by,
        note=note,
        value=None if values is None else client.codec.encode(values),
        message=client.codec.encode([approved, by, note, values]),
    )
    answered = await client.ask(verb)
    now = await _row(client, id)
    if isinstance(answered, Refused):
        raise AlreadyAnswered(f"{answered.why}: {now.question}", now.status.value, now.by)
    if not isinstance(answered, Done):
        raise StoreError(f"approval {id} was not answered in {client.url}: {getattr(answered, 'why', answered)}")
    client._wake(answered)
    return _info(now, client, (await client._ids({row.run})).get(row.run, ""))


def _filled_in(row: ApprovalRow, form: Any, *, approved: bool) -> Any:
    """Return a form's values, of the class that was asked for where this process knows it. Raises WrongUse.

    A form of a class may be left out, which its run sees. One that has a schema alone has to be filled in.
    """
    schema = None if row.form is None else _shown_form(row.form)
    if form is None:
        if approved and not row.form_type and required_of(schema):
            gaps = blank(schema)
            raise WrongUse(
                f"approval {row.id} cannot be approved without its form, whose fields are: {fields_told(schema)}. Give "
                f"form={gaps}, on the command line: outlast approve {row.id} --form {shlex.quote(gaps)}"
            )
        return None
    if schema is None and not row.form_type:
        raise WrongUse(f"approval {row.id} asks for no form, only for yes or no; write a note instead: {row.question}")
    cls = _class_of(row)
    try:
        if cls is not None:
            return filled_in(form, cls)
        if not row.form_type and isinstance(schema, dict):
            return filled_in(form, SchemaForm(schema))
        check_form(form, schema, all_names=False)
    except DecodingError as error:
        raise WrongUse(f"the form of approval {row.id} is not filled in as asked for: {error}") from None
    return form  # the run, which knows more of it, looks again


def _class_of(row: ApprovalRow) -> type | None:
    """Return the class that a form is made into, where this process has imported it."""
    module, _, name = row.form_type.partition(":")
    cls: Any = sys.modules.get(module)
    for part in name.split("."):
        cls = getattr(cls, part, None)
    return cls if isinstance(cls, type) else None


def _info(row: ApprovalRow, client: Client, run: str) -> ApprovalInfo:
    return ApprovalInfo(
        id=row.id,
        run=run,
        question=row.question,
        data=shown_value(row.data, client),
        status=row.status.value,
        to=row.addressee,
        created=row.created,
        due=row.due,
        form=None if row.form is None else _shown_form(row.form),
        answered=row.answered,
        by=row.by,
        note=row.note,
        value=None if row.value is None else shown_value(row.value, client),
        problem=row.problem,
        call=row.key,
    )


def _shown_form(schema: bytes) -> Any:
    """Return a form's JSON schema; a row that somebody has spoiled shows its text, and spoils no listing."""
    try:
        return msgspec.json.decode(schema)
    except (msgspec.DecodeError, RecursionError):
        return schema.decode("utf-8", "replace")
