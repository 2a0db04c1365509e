"""One self-contained HTML page about runs: without network access, scripts or web fonts."""

from scrl.report.page.story import page_text, write_page

__all__ = ["page_text", "write_page"]
