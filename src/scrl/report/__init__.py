"""Pictures, tables and pages."""
