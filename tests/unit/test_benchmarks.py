from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.arithmetic import Row, Target, against, exit_code, interleave, ratio
from benchmarks.plot import plot
from benchmarks.report import shown, write_json
from benchmarks.suite import CASES, chosen

ROOT = Path(__file__).resolve().parents[2]
RATIO = Target("some_row", "some row against its floor", 1.5)
BIG = Target("big_row", "a row whose size is the point", 1.5, full_only=True)
NOTHING = Target("nothing", "bytes that a replay writes", 0, "B", exact=True)
ONE = Target("one", "effects that a key makes", 1, "", exact=True)


def row(value: float | None, target: Target = RATIO, *, quick: bool = False) -> Row:
    return Row(target, value, quick, seconds=1.0, why_not="" if value else "not there")


async def test_sides_take_turns_and_each_round_begins_where_the_last_one_ended() -> None:
    order: list[str] = []

    async def ours() -> float:
        order.append("ours")
        return 2.0

    async def floor() -> float:
        order.append("floor")
        return 1.0

    await interleave([ours, floor], rounds=3)

    assert order == ["ours", "floor", "floor", "ours", "ours", "floor", "floor", "ours"]


async def test_the_round_that_pays_for_plans_and_caches_is_not_counted() -> None:
    times = iter([100.0, 3.0, 4.0, 5.0])

    async def cold_then_warm() -> float:
        return next(times)

    assert await interleave([cold_then_warm], rounds=3) == [[3.0, 4.0, 5.0]]


async def test_progress_is_told_for_every_round_and_ends_with_the_last() -> None:
    told: list[int] = []

    async def side() -> float:
        return 1.0

    await interleave([side], rounds=4, told=told.append)

    assert told == [0, 1, 2, 3, 4]


def test_a_slow_spell_of_the_machine_leaves_the_ratio_alone() -> None:
    ours = [2.0, 2.0, 20.0, 20.0, 20.0]
    floor = [1.0, 1.0, 10.0, 10.0, 10.0]

    assert ratio(ours, floor) == 2.0


def test_one_disturbed_round_does_not_move_the_ratio() -> None:
    assert ratio([2.0, 90.0, 2.0], [1.0, 1.0, 1.0]) == 2.0


def test_sides_that_did_not_run_equally_often_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="longer"):
        ratio([1.0], [1.0, 2.0])


def test_a_ratio_keeps_the_times_and_the_extremes_behind_it() -> None:
    measured = against([0.002, 0.004, 0.009], [0.001, 0.001, 0.003])

    assert measured.value == pytest.approx(3.0)
    assert measured.details == {
        "ours_ms": pytest.approx(4.0),
        "floor_ms": pytest.approx(1.0),
        "lowest_round": pytest.approx(2.0),
        "highest_round": pytest.approx(4.0),
    }


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (RATIO, 1.5, "holds"),
        (RATIO, 1.51, "missed"),
        (RATIO, None, "missing"),
        (NOTHING, 0, "holds"),
        (NOTHING, 1, "missed"),
        (ONE, 1, "holds"),
        (ONE, 0, "missed"),
        (ONE, 2, "missed"),
    ],
)
def test_a_verdict_follows_the_target(
    target: Target, value: float | None, verdict: str
) -> None:
    measured = row(value, target)

    assert measured.verdict == verdict
    assert measured.holds is (verdict == "holds")


def test_the_quick_form_draws_no_conclusion_where_size_is_the_point() -> None:
    assert row(1.0, BIG, quick=True).verdict == "indicative"
    assert row(9.0, BIG, quick=True).verdict == "indicative"
    assert row(9.0, BIG, quick=False).verdict == "missed"


def test_what_is_missing_fails_the_full_form_and_not_the_quick_one() -> None:
    rows = [row(1.0), row(None)]

    assert exit_code(rows, quick=False) == 1
    assert exit_code(rows, quick=True) == 0


def test_a_missed_target_is_a_finding_and_no_failure() -> None:
    assert exit_code([row(99.0)], quick=False) == 0


def test_a_row_that_broke_fails_either_form() -> None:
    broken = Row(RATIO, None, True, seconds=1.0, why_not="OperationalError", failed=True)

    assert broken.verdict == "failed"
    assert exit_code([broken], quick=True) == 1


def test_every_row_is_kept_with_name_ratio_target_and_holds(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "bench.json"

    write_json(path, [row(1.2), row(None)], quick=False, server="18.6")

    document = json.loads(path.read_text())
    assert document["form"] == "full"
    held, missing = document["rows"]
    assert (held["name"], held["ratio"], held["target"]) == ("some_row", 1.2, 1.5)
    assert held["holds"] is True
    assert (missing["ratio"], missing["holds"]) == (None, False)
    assert missing["why_not"] == "not there"


def test_quantities_are_shown_with_their_unit() -> None:
    assert shown(1.234, RATIO) == "1.23x"
    assert shown(0, NOTHING) == "0 B"
    assert shown(3, ONE) == "3"
    assert shown(489.2, Target("cpu", "CPU", 100, "µs")) == "489 µs"


def test_the_picture_has_a_bar_for_each_measured_row_and_says_what_is_missing() -> None:
    rows = [row(0.75), row(9.0), row(None), row(0, NOTHING)]

    drawn = ElementTree.fromstring(plot(rows, title="Bench <quick>"))

    bars = drawn.findall("{*}rect")
    assert [bar.get("class") for bar in bars] == ["holds", "missed", "holds"]
    half, most, least = (float(bar.get("width", "0")) for bar in bars)
    assert half * 4 == pytest.approx(most)
    assert least < half
    assert "missing" in {text.text for text in drawn.findall("{*}text")}


def test_rows_are_chosen_by_name_or_by_how_they_start() -> None:
    assert [case.target.name for case in chosen(["reserve_1"])] == ["reserve_1"]
    assert [case.target.name for case in chosen(["reserve"])] == [
        "reserve_1",
        "reserve_4",
        "reserve_16",
    ]
    assert chosen([]) == list(CASES)
    with pytest.raises(ValueError, match="no row is named 'nonsense'"):
        chosen(["nonsense"])


def test_every_row_has_a_name_of_its_own() -> None:
    names = [case.target.name for case in CASES]

    assert len(names) == len(set(names))


def test_the_document_has_a_line_for_every_row_with_its_target() -> None:
    document = (ROOT / "docs" / "performance.md").read_text()

    for case in CASES:
        line = re.search(rf"^\| `{case.target.name}` \|.*$", document, re.MULTILINE)
        assert line is not None, case.target.name
        assert shown(case.target.limit, case.target) in line[0], case.target.name
