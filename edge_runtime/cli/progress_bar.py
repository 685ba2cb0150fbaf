"""Progress of a command that takes minutes: a bar on stderr where that is a terminal, else nothing."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(first: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar, to be told what is under way, how much of it is done, and how much there is.

    Args:
        first: what is under way before anything is told.
    """
    if not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(first, total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
