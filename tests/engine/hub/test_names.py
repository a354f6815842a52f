"""Names as the hub has them, and names as nobody should have them."""

from __future__ import annotations

import pytest

from engine.gguf.quantizations import quality_of, quantization_in, without_quantization
from engine.hub.client import HubClient
from engine.hub.names import RemoteFile, group_files, is_repository, why_unsafe
from tests.engine.hub.loopback import LoopbackHub


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("model-Q4_K_M.gguf", "Q4_K_M"),
        ("Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("gemma-3-270m-it-F16.gguf", "F16"),
        ("llama-2-7b.Q8_0.gguf", "Q8_0"),
        ("x.i1-IQ2_XXS.gguf", "IQ2_XXS"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("GPT-OSS-MXFP4_MOE.gguf", "MXFP4_MOE"),
        ("BF16/m-BF16-00001-of-00002.gguf", "BF16"),
        ("Q6_K/foo-00001-of-00003.gguf", "Q6_K"),
        ("m.q5_1.gguf", "Q5_1"),
        ("Phi-3-mini-4k-instruct-fp16.gguf", "FP16"),
        ("tiny-TQ1_0.gguf", "TQ1_0"),
        ("model.gguf", None),
        ("Bonsai-1.7B-Q1_0.gguf", "Q1_0"),
        ("m-IQ4_NL.gguf", "IQ4_NL"),
        ("a-Q4_0_4_4.gguf", "Q4_0_4_4"),
        ("DeepSeek-R1-Distill-Qwen-7B-Q3_K_L.gguf", "Q3_K_L"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("foo-UD-IQ1_S.gguf", "UD-IQ1_S"),
        ("Qwen2-0_5b-instruct-q2_k.gguf", "Q2_K"),
        ("Q8_0/model-Q4_K_M.gguf", "Q4_K_M"),
        ("ABQ4_0X.gguf", None),
    ],
)
def test_the_quantization_in_a_name(path: str, expected: str | None) -> None:
    assert quantization_in(path) == expected


def test_a_name_without_its_quantization() -> None:
    assert without_quantization("SmolLM2-135M-Instruct.Q4_1") == ("SmolLM2-135M-Instruct", "Q4_1")
    assert without_quantization("Qwen3-UD-Q4_K_XL") == ("Qwen3", "UD-Q4_K_XL")
    assert without_quantization("Q4_0") == ("Q4_0", "")
    assert without_quantization("tokyo") == ("tokyo", "")


def test_quality_grows_with_the_bits() -> None:
    names = ["IQ1_S", "Q2_K", "Q3_K_M", "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16"]
    ranks = [quality_of(name).rank for name in names]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
    assert quality_of("UD-Q4_K_XL").words == "good"
    assert quality_of(None).words == "unknown"


@pytest.mark.parametrize(
    "path",
    [
        *("../../x.gguf", "/etc/x.gguf", "C:\\x.gguf", "\\\\h\\s\\x.gguf", "a\\..\\..\\x.gguf", "CON.gguf"),
        *("x.gguf:ads", "x.gguf.", "x.gguf ", "a\x00.gguf", "a" * 300 + ".gguf", "a//x.gguf", "./x.gguf", ""),
        *("CON .gguf", "aux  .x.gguf", "a\u202egguf.exe.gguf", "a\u200b.gguf", "a\u2028b.gguf", "a\ufeff.gguf"),
        *("a/../x.gguf", "nul/x.gguf", "ü" * 120 + ".gguf", "a?.gguf", "com1", "/".join("abc" * 99)),
    ],
)
def test_names_that_leave_the_folder_or_cannot_be_stored(path: str) -> None:
    assert why_unsafe(path)


@pytest.mark.parametrize(
    "path", ["x.gguf", "Q4_K_M/モデル ü.gguf", "a/b/c-00001-of-00002.gguf", "console.gguf", "a\u200db.gguf"]
)
def test_names_that_can_be_stored(path: str) -> None:
    assert why_unsafe(path) == ""


def test_repository_names() -> None:
    assert is_repository("owner/name-1.5_x")
    assert not any(is_repository(name) for name in ("name", "a/b/c", "../x", "a/..", "a /b", "é/b", "a/b?x=1"))


def test_files_become_versions_companions_and_refusals() -> None:
    names = [
        ("a-Q4_K_M-00001-of-00003.gguf", 10),
        ("a-Q4_K_M-00003-of-00003.gguf", 10),
        ("mmproj-F16.gguf", 3),
        ("best-of-breed.gguf", 1),
        ("Q8_0/a-Q8_0-00001-of-00001.gguf", 5),
        ("x.gguf.part1of2", 1),
        ("README.md", 1),
        ("a.imatrix.gguf", 1),
        ("../evil.gguf", 1),
    ]
    groups = group_files([RemoteFile(name, size) for name, size in names])
    found = {version.label: (version.size, version.missing, version.num_shards) for version in groups.versions}
    assert found == {"best-of-breed": (1, (), 1), "Q8_0": (5, (), 1), "Q4_K_M": (20, (2,), 3)}
    assert [file.path for file in groups.companions] == ["mmproj-F16.gguf"]
    assert {path for path, _ in groups.refused} == {"x.gguf.part1of2", "../evil.gguf"}


def test_two_files_of_one_quantization_keep_apart() -> None:
    groups = group_files([RemoteFile("a-Q4_0.gguf", 1), RemoteFile("b-Q4_0.gguf", 2)])
    assert [version.label for version in groups.versions] == ["a-Q4_0", "b-Q4_0"]


def test_a_set_that_claims_a_hundred_thousand_shards_costs_nothing() -> None:
    groups = group_files([RemoteFile("a-00001-of-99999.gguf", 1)])
    assert len(groups.versions[0].missing) < 1001


def test_every_version_has_a_label_of_its_own() -> None:
    def labels(*names: str) -> list[str]:
        return [version.label for version in group_files(RemoteFile(name, 5) for name in names).versions]

    sets = [f"{folder}/m-Q4_0-0000{number}-of-00002.gguf" for folder in "ab" for number in (1, 2)]
    assert labels(*sets) == ["a/m-Q4_0", "b/m-Q4_0"]
    assert labels("m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00001-of-00003.gguf", "b/n-Q8_0.gguf") == [
        "m-Q4_0-00001-of-00002", "m-Q4_0-00001-of-00003", "Q8_0",
    ]  # fmt: skip
    assert labels("m.gguf", "m.GGUF") == ["m", "m.GGUF"]


def test_a_long_set_lacks_its_last_shards() -> None:
    files = [RemoteFile(f"m-{number:05d}-of-01500.gguf", 5) for number in range(1, 1001)]
    (version,) = group_files(files).versions
    assert version.missing == tuple(range(1001, 1501))
    (version,) = group_files(
        [*files, *(RemoteFile(f"m-{n:05d}-of-01500.gguf", 5) for n in version.missing)]
    ).versions
    assert version.missing == ()


def test_half_a_character_in_what_the_hub_says_is_written_as_a_question_mark(hub: LoopbackHub) -> None:
    files = {"m-Q4_0.gguf": b"GGUF", "x\ud800.gguf": b"GGUF"}
    hub.add("acme/m", files, tags=["gguf", "license:m\ud800t"], gguf={"architecture": "ll\ud800ma"})
    with HubClient(hub.url) as client:
        repository = client.repository("acme/m")
    assert [version.label for version in repository.groups.versions] == ["Q4_0"]
    assert repository.groups.refused == (("x?.gguf", "the name has characters that files cannot have"),)
    assert (repository.model.license, repository.model.architecture) == ("m?t", "ll?ma")


def test_what_would_not_be_listed_is_not_offered() -> None:
    names = ["x.part.gguf", "x.tmp.gguf", ".hidden/x.gguf", "sub/.git/x.gguf"]
    groups = group_files([RemoteFile(name, 5) for name in (*names, "sub.part/x-Q4_0.gguf")])
    assert [name for name, _ in groups.refused] == names
    assert [version.label for version in groups.versions] == ["Q4_0"]
