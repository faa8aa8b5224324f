"""Every link inside the repository leads somewhere, and no page is out of reach."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import DOCS, ROOT, all_pages, anchors_of, links_of

OTHERS = (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in (*all_pages(), *OTHERS):
        for line, target in links_of(page):
            path, _, anchor = target.partition("#")
            if "://" in path or path.startswith("mailto:"):
                continue
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (anchor and anchor not in anchors_of(found)):
                broken.append(f"{page.relative_to(ROOT)}:{line}: {target}")
    assert not broken, "\n".join(broken)


def test_every_page_can_be_reached_from_the_readme() -> None:
    todo, seen = [ROOT / "README.md"], set[Path]()
    while todo:
        page = todo.pop()
        if page in seen or not page.is_file():
            continue
        seen.add(page)
        for _, target in links_of(page) if page.suffix == ".md" else ():
            path = target.partition("#")[0]
            if path and "://" not in path:
                todo.append((page.parent / path).resolve())
    lost = [str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md") if page not in seen and page.name[0] != "_"]
    assert not lost, f"no page links to these: {lost}"
