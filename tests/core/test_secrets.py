"""What counts as a secret, and that none gets through."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.core.secrets import (
    HIDDEN,
    SHORTEST_SECRET,
    is_secret_name,
    literal_secret,
    redact,
    secret_values,
    stated_secrets,
)
from tests.data_files import LOGS

SECRET_NAMES = [
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "VLLM_API_KEY",
    "OPENAI_APIKEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "DB_PASSWORD",
    "db_passwd",
    "github_token",
    "KEY",
    "WANDB_API_KEY",
    "TOKENIZER_SECRET",
    "MAX_TOKENS_API_KEY",
]
SETTING_NAMES = [
    "TOKENIZERS_PARALLELISM",
    "MY_TOKENIZER",
    "NUM_SPECULATIVE_TOKENS",
    "VLLM_MAX_NUM_BATCHED_TOKENS",
    "MAX_TOKENS",
    "KEYBOARD",
    "MONKEY",
    "KEYS",
    "HF_HOME",
    "NCCL_P2P_DISABLE",
    "PATH",
    "SSH_AUTH_SOCK",
    "",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_variable_of_such_a_name_holds_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_a_variable_of_such_a_name_is_a_setting(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("abc", True),
        ("${HF_TOKEN}", False),
        ("${ANY}", False),
        ("", False),
        ("x${HF_TOKEN}", True),
        ("$HF_TOKEN", True),
    ],
)
def test_a_plan_may_name_a_variable_but_not_state_its_value(value: str, literal: bool) -> None:
    assert literal_secret("HF_TOKEN", value) is literal
    assert literal_secret("HF_HOME", value) is False


# Without brackets: a secret that shares signs with the word put in its place could be made by putting it there.
signs = st.characters(codec="utf-8", exclude_characters="[]")
environments = st.dictionaries(
    st.one_of(st.sampled_from([*SECRET_NAMES, *SETTING_NAMES]), st.text(max_size=8)),
    st.text(signs, min_size=1, max_size=24),
    max_size=5,
)


@given(environments, st.lists(st.text(max_size=20), min_size=5, max_size=5))
def test_no_secret_of_an_environment_survives(environment: dict[str, str], between: list[str]) -> None:
    """Wherever the values stand, also one in another or one right after another."""
    secrets = secret_values(environment)
    text = "".join(piece + value for piece, value in zip(between, environment.values(), strict=False))
    for found in (text, text[::-1] + text, "".join(secrets), "".join(reversed(secrets))):
        told = redact(found, secrets)
        assert all(secret not in told for secret in secrets)


@given(environments)
def test_what_is_short_or_no_secret_is_not_hidden(environment: dict[str, str]) -> None:
    found = secret_values(environment)
    expected = {v for k, v in environment.items() if is_secret_name(k) and len(v) >= SHORTEST_SECRET}
    assert set(found) == expected
    assert list(map(len, found)) == sorted(map(len, found), reverse=True)


def test_the_longest_secret_is_hidden_first() -> None:
    secrets = secret_values({"A_TOKEN": "12345678", "B_TOKEN": "12345678-90", "C_TOKEN": "short"})
    assert secrets == ("12345678-90", "12345678")
    assert redact("a 12345678-90 b 12345678 c short", secrets) == f"a {HIDDEN} b {HIDDEN} c short"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("token hf_abcdefghijklmnopqrst.", f"token {HIDDEN}."),
        ("OPENAI=sk-proj-abcdefghij0123456789", f"OPENAI={HIDDEN}"),
        ("x ghp_abcdefghijklmnopqrst0123 y", f"x {HIDDEN} y"),
        ("Authorization: Bearer abc.def-ghi", f"Authorization: Bearer {HIDDEN}"),
        ("vllm serve m --api-key abc --port 1", f"vllm serve m --api-key {HIDDEN} --port 1"),
        ("--api-key=abc", f"--api-key={HIDDEN}"),
        ("http://me:pass@host:8000/v1", f"http://{HIDDEN}@host:8000/v1"),
        ("'hf_token': 'hf_abcdefghijklmnopqrst'", f"'hf_token': '{HIDDEN}'"),
        (
            "(Worker_TP0 pid=41) my-host.lan:41:99 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct",
            f"(Worker_TP0 pid=41) {HIDDEN}:41:99 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct",
        ),
        (
            "[2026-11-30 10:00:00] my_host:41:99 [1] misc/shmutils.cc:72 NCCL WARN Error: failed",
            f"[2026-11-30 10:00:00] {HIDDEN}:41:99 [1] misc/shmutils.cc:72 NCCL WARN Error: failed",
        ),
    ],
)
def test_what_is_shaped_like_a_secret_is_hidden_without_being_known(text: str, told: str) -> None:
    assert redact(text) == told
    assert redact(told) == told


@pytest.mark.parametrize(
    "text",
    [
        "tcp://127.0.0.1:53563 backend=gloo",
        "cached at /disk-cache-of-models-that-are-large/x",
        "task-0123456789-0123456789-0123456789",
        "hf_hub_download() and hf_transfer",
        "half_precision_is_used_here_and_there",
        "num_speculative_tokens=4, prompt tokens, tokenizer='/models/t'",
        "http://127.0.0.1:8000/v1/models",
        "mail me@example.org about http://example.org",
        "revision 0123456789abcdef0123456789abcdef01234567",
        "Bearer of bad news",
    ],
)
def test_ordinary_lines_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda one: one.name)
def test_a_recorded_log_stays_as_it_is(log: Path) -> None:
    text = log.read_text(encoding="utf-8")
    assert redact(text, secret_values({"HF_TOKEN": "a-token-that-is-not-there"})) == text


def test_secrets_in_a_plan_are_found_by_place_name_and_shape() -> None:
    tree = {
        "about": "by hf_abcdefghijklmnopqrst",
        "engine": {
            "command": ["env", "X=http://a:b@c/"],
            "environment": {"HF_TOKEN": "x", "A": "y", "OTHER_KEY": "${OTHER_KEY}", "PIN_SECRET": 1234, "E_TOKEN": ""},
            "flags": {"hf-token": "x", "other-key": "${KEY}", "max-tokens": 5, "tokenizer": "t", "seed": None},
        },
        "matrix": [{"environment": [{"B_TOKEN": "x"}]}],
        "repeats": None,
    }
    assert list(stated_secrets(tree)) == [
        ("about",),
        ("engine", "command", 1),
        ("engine", "environment", "HF_TOKEN"),
        ("engine", "environment", "PIN_SECRET"),
        ("engine", "flags", "hf-token"),
        ("matrix", 0, "environment", 0, "B_TOKEN"),
    ]
