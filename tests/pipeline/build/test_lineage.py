"""The lineage as it is told, without a run; what a run does is compared with it in `scenarios_lake/test_lineage`."""

import pytest

from penstock.errors import PipelineError
from penstock.facts import FACTS
from penstock.pipeline.build.lineage import FILES, LINEAGE, lineage_mermaid, lineage_text, steps_of
from penstock.pipeline.lake.tables import TABLES


def test_every_table_has_its_lineage_and_names_only_what_is_there() -> None:
    assert set(LINEAGE) == set(TABLES)
    known = {*TABLES, *FILES, *(f"bronze.{kind}" for kind in FACTS)}
    assert {source for made in LINEAGE.values() for source in made.made_from} <= known
    assert [table for table, made in LINEAGE.items() if table in made.made_from] == []


def test_every_kind_of_fact_ends_up_in_a_table() -> None:
    used = {source for made in LINEAGE.values() for source in made.made_from}
    assert {f"bronze.{kind}" for kind in FACTS} <= used


def test_a_table_that_no_run_makes_says_who_does() -> None:
    assert {table for table, made in LINEAGE.items() if not made.steps} == {"silver.viewer_samples", "gold.archive"}
    assert steps_of("gold.audience") == {"audience"}
    with pytest.raises(PipelineError, match=r"it is penstock pipeline archive; what can: .*gold\.audience"):
        steps_of("gold.archive")
    with pytest.raises(PipelineError, match="there is no such table"):
        steps_of("gold.nope")


def test_text_lists_each_table_with_what_it_is_made_from() -> None:
    text = lineage_text()
    assert "gold.view_quality\n  silver.views\n  rollup.histogram_hours\n" in text
    assert "silver.viewer_samples  (a view)\n  bronze.viewer_sample\n" in text
    assert "gold.data_quality\n  bronze.*\n  landed lines in quarantine\n" in text


def test_mermaid_has_an_arrow_for_each_line_of_the_text() -> None:
    lines = lineage_mermaid().splitlines()
    arrows = [line for line in lines if "-->" in line]
    assert lines[0] == "flowchart LR"
    assert "  silver_views --> gold_audience" in arrows
    assert '  bronze_all["bronze.*"]' in lines
    assert len(arrows) == sum(line.startswith("  ") for line in lineage_text().splitlines())
