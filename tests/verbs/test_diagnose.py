"""The command `diagnose`: what it prints, and the exit code it gives."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

import pytest

from collector.core.errors import UserError
from collector.verbs import diagnose

LOGS = Path(__file__).parent.parent / "data" / "vllm" / "logs"
HEALTHY = str(LOGS / "ok-0.27.0-ngram.log")
FAILED = str(LOGS / "kv_cache_too_small_override.log")
TAKEN = str(LOGS / "port_in_use.log")


def call(*arguments: str) -> int:
    """Run the command as the command line does."""
    parser = argparse.ArgumentParser()
    diagnose.register(parser.add_subparsers())
    args = parser.parse_args(["diagnose", *arguments])
    code = args.run(args)
    assert isinstance(code, int)
    return code


def test_a_healthy_log_gives_exit_code_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(HEALTHY) == 0
    assert capsys.readouterr().out == f"{HEALTHY}: ok, reached serving\n"


def test_one_failure_among_healthy_logs_gives_exit_code_one() -> None:
    assert call(HEALTHY, FAILED, HEALTHY) == 1


def test_json_is_one_array_with_an_object_for_every_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--json", HEALTHY, TAKEN) == 1
    healthy, taken = json.loads(capsys.readouterr().out)
    assert healthy == {
        "log": HEALTHY,
        "category": "ok",
        "phase": "serving",
        "cause": "",
        "numbers": {},
        "remedy": "",
        "retryable": False,
        "candidates": [],
        "starts": 1,
    }
    assert taken == {
        "log": TAKEN,
        "category": "port_in_use",
        "phase": "launch",
        "cause": "OSError: [Errno 98] Address already in use",
        "numbers": {"port": 8141.0},
        "remedy": "port 8141 is taken; end what listens there, or another --port",
        "retryable": True,
        "candidates": [],
        "starts": 1,
    }


def test_a_failure_is_a_short_block_for_a_reader(capsys: pytest.CaptureFixture[str]) -> None:
    call(FAILED)
    first, phase, cause, numbers, remedy = capsys.readouterr().out.splitlines()
    assert first == f"{FAILED}: kv_cache (no or too little memory left for KV or state blocks)"
    assert phase == "  phase: kv_alloc; will fail again"
    assert cause.startswith("  cause: ValueError: To serve at least one request")
    assert numbers == (
        "  numbers: max_model_len_requested 2048, kv_gib_needed 0, kv_gib_available 0, max_model_len_estimate 512"
    )
    assert remedy.startswith("  remedy: max_model_len 512 would fit; ")


def test_an_unknown_failure_shows_what_it_might_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "odd.log"
    log.write_text("ValueError: the moon is wrong\nRuntimeError: and so are the stars\n", encoding="utf-8")
    assert call(str(log)) == 1
    out = capsys.readouterr().out
    assert "cause: ValueError: the moon is wrong\n" in out
    assert "  or: RuntimeError: and so are the stars\n" in out
    assert "may pass" not in out


def test_the_exit_code_decides_where_the_log_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "silent.log"
    log.write_bytes(b"")
    assert call("--json", str(log)) == 1
    (empty,) = json.loads(capsys.readouterr().out)
    assert call("--json", str(log), "--exit-code", "-9") == 1
    (killed,) = json.loads(capsys.readouterr().out)
    assert (empty["category"], empty["cause"]) == ("other", "the log is empty")
    assert killed["category"] == "worker_died"


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(Path(FAILED).read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert call("-", "--json") == 1
    assert json.loads(capsys.readouterr().out)[0]["category"] == "kv_cache"


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    log = tmp_path / "broken.log"
    log.write_bytes(b"\xff\xfe\nValueError: No available memory for the cache blocks.\n\xff")
    assert call(str(log)) == 1


def test_what_it_prints_holds_no_secret_and_nothing_that_acts_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "open-sesame-123")
    log = tmp_path / "odd.log"
    told = "\x1b[31mValueError\x1b[0m: no entry for hf_abcdefghijklmnop0123456789 or open-sesame-123"
    acting = "\x1b]0;a title\x07\x1b[2J\x9b31m\u202eback\x7f\x08"
    log.write_text(f"{told} {acting}\nRuntimeError: Bearer abcdefgh12345 {acting}\n", encoding="utf-8")
    for words in ((), ("--json",)):
        assert call(str(log), *words) == 1
        out = capsys.readouterr().out
        assert "hf_abc" not in out
        assert "sesame" not in out
        assert "abcdefgh12345" not in out
        assert "ValueError: no entry for [hidden] or [hidden]" in out
        assert all(sign == "\n" or sign.isprintable() for sign in out)
        assert "title" not in out


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "missing.log")
    with pytest.raises(UserError) as caught:
        call(HEALTHY, missing, TAKEN)
    assert str(caught.value) == (
        f"{missing}: cannot read it (No such file or directory); name the file with the engine's log, or -"
    )
    out = capsys.readouterr().out
    assert f"{HEALTHY}: ok" in out
    assert f"{TAKEN}: port_in_use" in out
    with pytest.raises(UserError):
        call("--json", missing)
    assert json.loads(capsys.readouterr().out) == []


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Is a directory"):
        call(str(tmp_path))


def test_a_log_that_a_windows_shell_redirected_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "wide.log"
    log.write_bytes(Path(FAILED).read_text(encoding="utf-8").encode("utf-16"))
    assert call("--json", str(log)) == 1
    assert json.loads(capsys.readouterr().out)[0]["category"] == "kv_cache"


def test_a_log_cut_short_is_told_where_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "cut.log"
    log.write_text(Path(HEALTHY).read_text(encoding="utf-8").partition("Loading weights took")[0], encoding="utf-8")
    assert call(str(log)) == 1
    first, phase, cause, *_ = capsys.readouterr().out.splitlines()
    assert first == f"{log}: other (none of these: the likeliest lines are kept and nothing is guessed)"
    assert phase == "  phase: weights; nothing shows why"
    assert cause == "  cause: the log ends in phase weights, before the engine was ready"


def test_a_restarted_engine_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "restarted.log"
    log.write_text(Path(FAILED).read_text(encoding="utf-8") + Path(HEALTHY).read_text(encoding="utf-8"))
    assert call(str(log)) == 0
    assert capsys.readouterr().out == f"{log}: ok, reached serving (the last of 2 starts)\n"
