"""A log of what was done, held against the rules."""

from scrl.audit.audit import Audit, audit
from scrl.audit.options import AuditOptions, LogError

__all__ = ["Audit", "AuditOptions", "LogError", "audit"]
