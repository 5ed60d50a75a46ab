"""docs/python.md has every public name as stubs and docstrings say it, and its examples are ones that type checkers accept."""

from __future__ import annotations

import reference


def test_the_page_is_up_to_date() -> None:
    text = reference.PAGE.read_text()
    assert reference.page(text) == text, "rewrite it with: python3 python/tests/package/reference.py"
