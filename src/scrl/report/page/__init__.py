"""One self-contained HTML page about runs: no network, no script, no font of its own."""

from scrl.report.page.story import page_text, write_page

__all__ = ["page_text", "write_page"]
