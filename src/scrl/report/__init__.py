"""Reports: figures, tables, comparisons and HTML pages."""
