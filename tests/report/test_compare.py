"""Comparing runs: pairing, sentences, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scrl.errors import ScrlError
from scrl.problems import difference_between
from scrl.report.compare import CHANCE, Comparison, compare, fewest_seeds
from scrl.report.figures import contrast_figure
from scrl.report.reading import read_runs
from scrl.report.words import amount
from scrl.statistics import holm, paired_difference

from .made import make_run, small_problem

SLOW = (1.0, 1.02, 1.04, 1.06, 1.08, 1.1)
FAST = (1.5, 1.52, 1.54, 1.56, 1.58, 1.6)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Six seeds driven slowly, beside the same seeds driven fast."""
    root, problem = tmp_path_factory.mktemp("runs"), small_problem()
    slow = make_run(root / "slow", problem, method="slow", speeds=SLOW)
    fast = make_run(
        root / "fast", problem, method="fast", speeds=FAST[::-1], seeds=range(5, -1, -1)
    )
    return compare(read_runs([slow, fast]))


def test_the_same_seeds_are_held_against_each_other_in_whatever_order(found: Comparison) -> None:
    [pair] = found.pairs
    assert pair.is_paired
    assert pair.one.seeds == pair.other.seeds == (0, 1, 2, 3, 4, 5)
    apart = pair.one.values["return"] - pair.other.values["return"]
    assert pair.contrasts[0].difference.mean == pytest.approx(apart.mean())
    # All six differences have one sign: only two of 64 ways to sign them are as extreme.
    assert pair.contrasts[0].p == pytest.approx(2 / 64)


def test_the_verdicts_are_plain_sentences(found: Comparison) -> None:
    [pair] = found.pairs
    by = pair.contrasts[0].difference
    assert pair.contrasts[0].sentence == (
        f"fast is cheaper than slow by {amount(-by.mean)} (95 %: {amount(-by.high)} to "
        f"{amount(-by.low)}); the difference is not chance (p = 0.031)."
    )
    assert pair.contrasts[1].sentence == "Neither violates any rule, in any seed."
    assert pair.contrasts[2].sentence == (
        "Every rule holds in 6 of 6 seeds of slow, 6 of 6 of fast."
    )
    assert pair.too_few is None


def test_what_is_cheaper_may_break_rules(tmp_path: Path) -> None:
    problem = small_problem()
    kept = make_run(tmp_path / "kept", problem, speeds=SLOW)
    broken = make_run(tmp_path / "broken", problem, method="none", speeds=(3.0,) * 6)
    [pair] = compare(read_runs([kept, broken])).pairs
    cheap, violation, satisfied = (each.sentence for each in pair.contrasts)
    assert cheap.startswith("none is cheaper than scrl by ")
    assert cheap.endswith(", but none breaks the rules by more.")
    # At full speed S2 gets 12.85, which is 2.85 above what would set the rule off.
    assert violation.startswith("scrl violates the rules less than none, by 2.85 (95 %: 2.85 to ")
    assert satisfied == (
        "Every rule holds in 6 of 6 seeds of scrl, 0 of 6 of none; the difference is not chance "
        "(p = 0.031)."
    )


def test_few_seeds_are_said_to_be_too_few(tmp_path: Path) -> None:
    problem = small_problem()
    runs = [
        make_run(tmp_path / name, problem, method=name, speeds=speeds)
        for name, speeds in (("one", SLOW[:3]), ("other", FAST[:3]))
    ]
    [pair] = compare(read_runs(runs)).pairs
    assert "could be chance (p = 0.25)" in pair.contrasts[0].sentence
    assert pair.too_few is not None
    assert "train at least 6" in pair.too_few


def test_other_seeds_are_shuffled_instead(tmp_path: Path) -> None:
    problem = small_problem()
    one = make_run(tmp_path / "one", problem, speeds=SLOW[:4])
    other = make_run(tmp_path / "other", problem, speeds=FAST[:4], seeds=(7, 8, 9, 10))
    [pair] = compare(read_runs([one, other])).pairs
    assert not pair.is_paired
    # Two of the 70 ways to choose four of eight keep all the slow ones together.
    assert pair.contrasts[0].p == pytest.approx(2 / 70)


def test_with_more_runs_every_p_is_corrected(tmp_path: Path) -> None:
    problem = small_problem()
    names = ("one", "two", "three")
    runs = [
        make_run(tmp_path / name, problem, method=name, speeds=speeds)
        for name, speeds in zip(names, (SLOW, FAST, FAST), strict=True)
    ]
    pairs = compare(read_runs(runs)).pairs
    assert [pair.contrasts[0].p for pair in pairs] == pytest.approx([4 / 64, 4 / 64])
    # Six seeds are enough for one pair (2 / 64), but not for two of them; seven are (4 / 128).
    for pair in pairs:
        assert pair.too_few is not None
        assert "(p = 0.062 is the least they can give): train at least 7" in pair.too_few
        assert "in all 3 runs" in pair.too_few


@pytest.mark.parametrize("pairs", [1, 2, 3, 5, 23])
def test_the_fewest_seeds_are_just_enough_for_all_pairs(pairs: int) -> None:
    seeds = fewest_seeds(pairs)

    def largest_p(seeds: int) -> float:
        apart = paired_difference(np.arange(1.0, seeds + 1), np.zeros(seeds))
        return max(holm([apart.p] * pairs))

    assert largest_p(seeds) < CHANCE <= largest_p(seeds - 1)


def test_the_same_run_twice_differs_in_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", small_problem(), speeds=SLOW)
    [pair] = compare(read_runs([run, run])).pairs
    assert pair.contrasts[0].sentence == "scrl (run) and scrl (run) 2 return the same."
    assert pair.contrasts[0].p == 1.0


def test_json_says_the_same(found: Comparison) -> None:
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["runs"][0]["run"] == "slow"
    assert document["runs"][0]["satisfied"] == 6
    assert document["runs"][0]["return"]["mean"] == found.runs[0].means["return"].mean
    assert document["pairs"][0]["return"]["sentence"] == found.pairs[0].contrasts[0].sentence
    assert document["pairs"][0]["return"]["is_real"] is True
    assert document["pairs"][0]["satisfied"]["difference"] == 0.0


def test_the_picture_has_every_seed_and_an_interval(found: Comparison) -> None:
    left, right = contrast_figure(found).axes
    assert sum(len(np.asarray(each.get_offsets())) for each in left.collections) == 12
    assert [text.get_text() for text in right.get_yticklabels()] == ["against fast"]


def test_different_problems_are_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", small_problem())
    other = make_run(tmp_path / "other", small_problem({"all": "S1 >= 5"}, tolerance=0.5))
    with pytest.raises(ScrlError, match=r"differ in: rules, tolerance.*`scrl report` shows them"):
        compare(read_runs([one, other]))


def test_a_name_is_no_difference() -> None:
    assert difference_between(small_problem(), small_problem(name="other")) == []


def test_unfinished_runs_and_single_ones_are_refused(tmp_path: Path) -> None:
    done = make_run(tmp_path / "done", small_problem())
    open_ = make_run(tmp_path / "open", small_problem(), is_finished=False)
    with pytest.raises(ScrlError, match=r"open: this run is not finished; resume with `scrl train"):
        compare(read_runs([done, open_]))
    with pytest.raises(ScrlError, match="one run alone cannot be compared"):
        compare(read_runs([done]))
