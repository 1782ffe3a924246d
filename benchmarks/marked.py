"""Parts of a page that a command writes: between `<!-- NAME -->` and `<!-- /NAME -->`."""


def fill(page: str, mark: str, content: str) -> str:
    """The page with other content between the marks of a name.

    Raises:
        ValueError: The page has no such marks.
    """
    start, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, opened, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"There is no place for {mark}.")
    return before + start + content + end + after
