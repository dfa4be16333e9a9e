"""A checkup in the terminal and in files: what lacks is said with what to do; markup is escaped."""

from __future__ import annotations

import csv
import io

from rooflab import views
from rooflab.types.checkup import Checkup, Grant

GRANTS = (
    Grant(
        topic="counters", name="hardware counters", status="missing", found="<none>", means="no FLOP", todo="ask"
    ),
    Grant(topic="memory", name="swap", status="ok", found="none"),
)
CHECKUP = Checkup(
    rooflab="1", python="3.12", system="Linux 6", grants=GRANTS, took_s=0.5, date="2026-01-01T00:00:00+00:00"
)


def shown(checkup: Checkup) -> str:
    out = io.StringIO()
    views.show(checkup, out)
    return out.getvalue()


def test_each_thing_has_a_line_and_what_lacks_says_what_to_do():
    text = shown(CHECKUP)
    assert "missing   hardware counters: <none>\n          No FLOP. To do: ask.\n" in text
    assert "ok        swap: none\n" in text
    assert "2 things looked at in 500 ms: 1 ok, 1 missing." in text


def test_what_stops_rooflab_comes_first():
    stopping = Grant(
        topic="libraries", name="NumPy", status="missing", found="not installed", todo="Install", stops=True
    )
    checkup = Checkup(
        rooflab="1", python="3.12", system="Linux", grants=(*GRANTS, stopping), took_s=0.5, date="2026-01-01"
    )
    assert not checkup.works
    assert shown(checkup).splitlines()[:2] == ["rooflab 1 cannot work here", "NumPy: not installed. Install"]


def test_csv_and_page(tmp_path):
    CHECKUP.save(tmp_path / "a.csv", tmp_path / "a.html", tmp_path / "a.md")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text(encoding="utf-8"))))
    assert [row["status"] for row in rows] == ["missing", "ok"]
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "&lt;none&gt;" in page
    assert "<none>" not in page
