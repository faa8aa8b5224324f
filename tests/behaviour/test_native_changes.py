"""A native workflow whose code does something else than what is recorded is found out at once."""

from __future__ import annotations

from outlast import step, workflow
from tests.behaviour.stage import OpenApp, Restart, stuck


@step
async def work(what: int) -> int:
    return what


async def test_a_step_with_a_key_and_other_arguments_is_found_out(restart: Restart, open_app: OpenApp) -> None:
    passes: list[int] = []

    @workflow(loop="native")
    async def native() -> int:
        passes.append(1)
        result = await work.options(key="one")(len(passes))
        await restart.point()
        return result

    run_id = await restart.run(native())
    async with open_app() as app:
        info = await stuck(await app.get(run_id))
    assert "work[one]" in info.detail
    assert len(passes) == 2
