"""What an ejected model leaves behind: nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

_KV_BYTES = 30 * 3 * 64 * 2 * 2  # of a token: 30 layers of 3 heads of 64 values, keys and values, 2 bytes each
ROOT = Path(__file__).resolve().parents[2]


def test_the_memory_of_an_ejected_model_goes_back(smollm2_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.engine.eject_process", str(smollm2_path), "4"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    rounds = [json.loads(line) for line in result.stdout.splitlines()]
    assert [round_["mapped"] for round_ in rounds] == [0] * 4, "the file of weights is let go"
    _, second, *later = rounds  # the first one leaves what it imported and compiled
    for round_ in later:
        assert round_["left_mb"] < second["left_mb"] * 1.06  # 1.08 where freed memory is kept
        weights_mb = smollm2_path.stat().st_size / 1e6
        kv_mb = round_["tokens"] * _KV_BYTES / 1e6
        assert round_["used_mb"] - round_["left_mb"] > 0.9 * (weights_mb + kv_mb)
