"""`outlast reject`."""

from __future__ import annotations

from outlast.cli.answering import ApprovalId, By, Form, Note, answer
from outlast.cli.options import AppName, Json, Url


def reject(
    approval: ApprovalId,
    by: By = None,
    note: Note = "",
    form: Form = None,
    url: Url = None,
    app_name: AppName = None,
    as_json: Json = False,
) -> None:
    """Answer an approval with no.

    It is answered once: whoever comes later is told who did. What is filled
    in is checked by the form's schema first; with --app, by your own class.

    \b
    outlast reject 3f2a9c0d11e8b475 --by ann --note "not hers"
    """
    answer("reject", approval, by, note, form, url, app_name, as_json=as_json)
