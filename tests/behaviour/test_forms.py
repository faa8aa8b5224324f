"""A form that people fill in is checked when they give it, and comes back to the run as it was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pydantic
import pytest

import outlast
from outlast import workflow
from outlast.codec.forms import SchemaForm
from tests.behaviour.stage import Ears, OpenApp
from tests.behaviour.test_approvals import open_ones


@dataclass
class Refund:
    """What a person may fill in."""

    cents: int
    reason: str = ""


class Limits(pydantic.BaseModel):
    """The same, with a rule."""

    cents: int = pydantic.Field(gt=0, le=500)


@workflow
async def filling(form: str) -> Any:
    kind = {"refund": Refund, "limits": Limits}[form]
    answer = await outlast.approve("How much?", form=kind)
    return [type(answer.form).__name__, answer.form.cents]


@pytest.mark.parametrize("form", ["refund", "limits"])
async def test_a_form_comes_back_as_the_class_that_was_asked_for(open_app: OpenApp, form: str) -> None:
    async with open_app() as app:
        run = await app.start(filling(form))
        (asked,) = await open_ones(app)
        assert "cents" in str(asked.form)
        with pytest.raises(outlast.WrongUse, match=f"the form of approval {asked.id} is not filled in as asked for"):
            await app.approve(asked.id, form={"cents": "many"})
        told = await app.approve(asked.id, form={"cents": 250})
        assert told.status == "approved"
        assert await run.result() == [form.capitalize(), 250]


async def test_an_answer_that_only_the_run_can_tell_is_wrong_opens_the_question_again(
    open_app: OpenApp, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "outlast.runtime.answering._filled_in", lambda row, form, approved: form
    )  # another process: no such class
    async with open_app(on_event=ears) as app:
        run = await app.start(filling("limits"), id="one")
        (asked,) = await open_ones(app)
        await app.approve(asked.id, by="bob", form={"cents": 1_000})
        notice = await ears.hear("approval.reopened", run="one")
        (again,) = await open_ones(app)
        assert again.id == asked.id
        assert "less than or equal to 500" in again.problem == notice.data["why"]
        await app.approve(asked.id, by="cid", form={"cents": 100})
        assert await run.result() == ["Limits", 100]


async def test_a_field_that_the_form_does_not_have_is_named_and_not_dropped(open_app: OpenApp) -> None:
    async with open_app() as app:
        for form, kind in (("refund", "Refund"), ("limits", "Limits")):
            await app.start(filling(form), id=form)
            (asked,) = await open_ones(app)
            with pytest.raises(outlast.WrongUse, match=rf"as asked for: {kind} has no field 'cent', 'why'"):
                await app.approve(asked.id, form={"cents": 5, "cent": 5, "why": "typo"})
            await app.approve(asked.id, form={"cents": 5})


async def test_a_form_is_checked_by_its_schema_where_its_class_is_not_at_hand(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.runtime.answering._class_of", lambda row: None)  # as in another process
    async with open_app() as app:
        for form, wrong, problem, fields in (
            ("refund", {"cent": 5}, "the form lacks 'cents'", r"cents \(integer\), reason \(string, may be left out\)"),
            ("limits", {"cents": 501}, "cents must be at most 500, not 501", r"cents \(integer\)"),
        ):
            run = await app.start(filling(form), id=form)
            (asked,) = await open_ones(app)
            with pytest.raises(outlast.WrongUse, match=rf"as asked for: {problem}\. Its fields: {fields}$"):
                await app.approve(asked.id, form=wrong)
            await app.approve(asked.id, form={"cents": 5})
            assert await run.result() == [form.capitalize(), 5]


@workflow
async def filling_in_by_a_schema(required: bool) -> Any:
    schema = {"properties": {"cents": {"type": "integer"}, "why": {"type": "string"}}}
    answer = await outlast.approve(
        "How much?", form=cast("Any", SchemaForm(schema | ({"required": ["cents"]} if required else {})))
    )
    return answer.form


async def test_a_form_of_a_schema_that_has_to_be_filled_in_is_not_approved_without(open_app: OpenApp) -> None:
    async with open_app() as app:
        run = await app.start(filling_in_by_a_schema(required=True), id="one")
        (asked,) = await open_ones(app)
        fields = r"cents \(integer\), why \(string, may be left out\)"
        with pytest.raises(outlast.WrongUse, match=f"cannot be approved without its form.*: {fields}") as no:
            await app.approve(asked.id)
        assert str(no.value).endswith(f"""outlast approve {asked.id} --form '{{"cents": ..., "why": ...}}'""")
        with pytest.raises(outlast.WrongUse, match=f"has no field 'cent'. Its fields: {fields}"):
            await app.approve(asked.id, form={"cents": 5, "cent": 5})
        await app.approve(asked.id, form={"cents": 5})
        assert await run.result() == {"cents": 5}
        assert [step.value[4] for step in await run.steps()] == [{"cents": 5}]  # the form, as `outlast show` has it


@pytest.mark.parametrize("required", [True, False])
async def test_a_form_of_a_schema_that_has_to_be_filled_in_can_be_rejected_and_another_left_out(
    open_app: OpenApp, required: bool
) -> None:
    async with open_app() as app:
        run = await app.start(filling_in_by_a_schema(required))
        (asked,) = await open_ones(app)
        await (app.reject if required else app.approve)(asked.id)
        assert await run.result() is None


async def test_an_answer_without_the_form_that_a_run_needs_opens_the_question_again(
    open_app: OpenApp, ears: Ears, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.runtime.answering.required_of", lambda schema: [])
    async with open_app(on_event=ears) as app:
        run = await app.start(filling_in_by_a_schema(required=True), id="one")
        (asked,) = await open_ones(app)
        await app.approve(asked.id)
        await ears.hear("approval.reopened", run="one")
        (again,) = await open_ones(app)
        assert again.problem.startswith("it was approved without the form, which asks for 'cents'")
        await app.approve(asked.id, form={"cents": 5})
        assert await run.result() == {"cents": 5}


@workflow
async def filling_anything() -> Any:
    answer = await outlast.approve("What?", form=Any)
    return [answer.form, bool(await outlast.approve("Sure?", form=Any))]


@pytest.mark.parametrize("form", [{"decisions": [{"type": "edit"}]}, [1, 2], "five", 5])
async def test_a_form_may_be_any_json_and_left_out(open_app: OpenApp, form: Any) -> None:
    async with open_app() as app:
        run = await app.start(filling_anything())
        (asked,) = await open_ones(app)
        assert asked.form == {}  # the JSON schema of whatever you like
        await app.approve(asked.id, form=form)
        (sure,) = await open_ones(app)
        await app.approve(sure.id)
        assert await run.result() == [form, True]
