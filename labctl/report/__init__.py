"""A run as something to read: a table in the terminal, a page, JSON.

``build_report`` makes one typed ``ReportModel`` of a journal; every form is made of that
and of nothing else, so no two of them can disagree. No statistic is computed here
(labctl.stats), and what is printed where is the caller's business.
"""

from __future__ import annotations

from labctl.report.build import build_report
from labctl.report.model import ReportModel, to_json
from labctl.report.page import render_page, write_page

__all__ = ["ReportModel", "build_report", "render_page", "to_json", "write_page"]
