"""The report of skipped images."""

from __future__ import annotations

from treeformer.data import Skipped, SkipReport


def test_reports_merge() -> None:
    first = SkipReport([Skipped("a", "a: broken"), Skipped("b", "b: broken")])
    first.merge(SkipReport([Skipped("b", "b: broken"), Skipped("c", "c: broken")]))
    assert str(first) == "3 images were skipped\n  a: broken\n  b: broken\n  c: broken"


def test_a_report_of_thousands_stays_short() -> None:
    lines = str(SkipReport(Skipped(str(k), f"{k}: broken") for k in range(3000))).splitlines()
    assert lines[0] == "3000 images were skipped"
    assert lines[-1] == "  and 2980 more"
    assert len(lines) == 22
