"""Medians, ratios and shares: each the right way round."""

from __future__ import annotations

import json

import pytest

from engine.bench.results import OWN, BetweenSteps, BusyResult, Report, Series, SpeedResult, SpeedTest, ratio

DECODE = SpeedTest("decode", 32, 4096, 2)


def report() -> Report:
    return Report({"name": "m"}, {"processor": "p"}, [OWN, "peer"])


def test_a_median_is_of_all_samples() -> None:
    assert Series([1.0, 9.0, 2.0]).median == 2.0
    assert Series([1.0, 2.0]).median == 1.5
    assert Series().median is None


def test_the_spread_is_the_largest_over_the_smallest() -> None:
    assert Series([2.0, 3.0, 1.0]).spread == 3.0
    assert Series().spread == 1.0


def test_a_ratio_above_one_means_that_we_are_better() -> None:
    series = {OWN: Series([30.0]), "peer": Series([20.0])}
    assert report().ratios(series) == {"peer": 1.5}
    assert report().ratios(series, is_time=True) == {"peer": pytest.approx(2 / 3)}


def test_ratios_want_both_sides() -> None:
    assert report().ratios({OWN: Series([1.0])}) == {}
    assert report().ratios({OWN: Series([1.0]), "peer": Series()}) == {"peer": None}
    assert ratio(1.0, 0.0) is None


def test_the_bandwidth_share_is_bytes_a_second_over_what_the_memory_gives() -> None:
    result = SpeedResult(DECODE, {OWN: Series([100.0])}, bytes_per_token=80_000_000, bandwidth=10e9)
    assert result.bandwidth_share(OWN) == pytest.approx(0.8)
    assert SpeedResult(DECODE, {OWN: Series([100.0])}, bandwidth=10e9).bandwidth_share(OWN) is None


def test_the_share_kept_compares_each_engine_with_itself() -> None:
    alone = {OWN: Series([100.0]), "peer": Series([50.0])}
    beside = {OWN: Series([60.0]), "peer": Series([5.0])}
    result = BusyResult(DECODE, 1, 2 / 3, alone, beside)
    assert result.share_kept(OWN) == pytest.approx(0.6)
    assert result.share_kept("peer") == pytest.approx(0.1)


def test_a_report_is_json() -> None:
    full = report()
    full.bandwidth, full.file_bandwidth = {1: 25e9}, {1: 20e9}
    speeds = {OWN: Series([100.0, 110.0]), "peer": Series([50.0])}
    full.speeds.append(SpeedResult(DECODE, speeds, 1000, 25e9))
    full.busy.append(BusyResult(DECODE, 1, 0.5, speeds, speeds))
    full.between_steps.append(BetweenSteps("greedy", 0.25, 0.75))
    plain = json.loads(json.dumps(full.as_plain()))
    assert plain["between_steps"] == [{"label": "greedy", "between_s": 0.25, "step_s": 0.75, "share": 0.25}]
    assert (plain["bandwidth"], plain["file_bandwidth"]) == ({"1": 25e9}, {"1": 20e9})
    assert plain["speeds"][0]["tokens_per_second"][OWN] == {"median": 105.0, "samples": [100.0, 110.0]}
    assert plain["speeds"][0]["ratio"] == {"peer": 2.1}
    assert plain["speeds"][0]["depth"] == 4096
    assert plain["busy"][0]["share_kept"] == {OWN: 1.0, "peer": 1.0}


def test_labels_tell_tests_apart() -> None:
    assert SpeedTest("prefill", 2048, 0, 1).label == "prefill 2,048"
    assert DECODE.label == "decode at 4,096"
