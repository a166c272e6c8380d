"""Prompt sets: the data files, and what makes every request different yet reproducible."""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.core.errors import EngineError, UserError
from collector.core.prompt_names import PROMPT_SETS
from collector.measure.prompts import (
    PromptSet,
    digest,
    load_prompt_set,
    nonce,
    prompt_text,
    repetitions_for,
    request_body,
    tokenize_body,
)

FOLDER = Path(str(files("collector.measure") / "prompt_sets"))
GENERAL_SETS = [name for name in PROMPT_SETS if name.startswith("general/")]
FEWEST_PROMPTS = 8
MOST_SHARED_WORDS = 0.35  # of the words of both texts; ours share a sixth at most
EVERYDAY_WORDS = range(40, 201)

SENTENCES = PromptSet(name="synthetic", kind="completion", texts=("One two.", "Three four."), digest="")
QUESTIONS = PromptSet(name="general/english", kind="chat", texts=("Why?", "How?"), digest="")

salts = st.text(max_size=20)
indexes = st.integers(min_value=0, max_value=10**6)
requests = st.tuples(salts, indexes)


def shared_words(left: str, right: str) -> float:
    a, b = set(left.lower().split()), set(right.lower().split())
    return len(a & b) / len(a | b)


def test_names_match_the_data_files() -> None:
    """A plan may name exactly the sets that the package holds."""
    found = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.json")}
    assert set(PROMPT_SETS) == found
    assert len(PROMPT_SETS) == len(found)


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_a_data_file_says_its_name_kind_and_origin(name: str) -> None:
    """Each file has the same four keys, and its name is its place."""
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert list(data) == ["name", "kind", "about", "texts"]
    assert data["name"] == name
    assert data["kind"] == ("completion" if name == "synthetic" else "chat")
    assert "own work" in data["about"]
    assert "licence" in data["about"]


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_a_loaded_set_is_what_its_file_says(name: str) -> None:
    """Loading changes no text and adds the digest of the content."""
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert load_prompt_set(name) == PromptSet(
        name=name, kind=data["kind"], texts=tuple(data["texts"]), digest=digest(data["kind"], data["texts"])
    )


def test_synthetic_has_two_sentences() -> None:
    """They are repeated to a length, so each must stand alone and end with a full stop."""
    texts = load_prompt_set("synthetic").texts
    assert len(texts) == 2
    assert all(text.endswith(".") and 12 <= len(text.split()) <= 14 for text in texts)


@pytest.mark.parametrize("name", GENERAL_SETS)
def test_a_general_set_has_enough_prompts_of_everyday_length(name: str) -> None:
    """Few prompts, or tiny ones, would say little about real use."""
    texts = load_prompt_set(name).texts
    assert len(set(texts)) >= FEWEST_PROMPTS
    assert [text for text in texts if len(text.split()) not in EVERYDAY_WORDS] == []


def test_no_two_texts_are_alike_in_any_sets() -> None:
    """A near-duplicate would make an engine's speculation look better than it is."""
    texts = [text for name in PROMPT_SETS for text in load_prompt_set(name).texts]
    alike = [(a, b) for a, b in combinations(texts, 2) if shared_words(a, b) > MOST_SHARED_WORDS]
    assert alike == []


def test_texts_have_no_stray_spaces() -> None:
    """What is sent begins and ends with a word, on every line."""
    texts = [text for name in PROMPT_SETS for text in load_prompt_set(name).texts]
    assert [text for text in texts if text.strip() != text or " \n" in text] == []


def test_korean_texts_consist_mostly_of_hangul() -> None:
    """Of the letters and digits, nine of ten are Hangul syllables."""
    for text in load_prompt_set("general/korean").texts:
        signs = [sign for sign in text if sign.isalnum()]
        hangul = [sign for sign in signs if "가" <= sign <= "힣"]
        assert len(hangul) >= 0.9 * len(signs), text


def test_an_unknown_name_is_answered_with_the_known_ones_and_a_close_spelling() -> None:
    """The user learns what was found, what is allowed and what was probably meant."""
    with pytest.raises(UserError) as caught:
        load_prompt_set("synthetics")
    assert str(caught.value) == (
        "prompt set 'synthetics' is not known: expected one of synthetic, general/english, general/code, "
        "general/reasoning, general/korean; did you mean 'synthetic'?"
    )


@given(st.lists(st.text(), min_size=1), st.data())
def test_the_digest_changes_when_a_text_changes(texts: list[str], data: st.DataObject) -> None:
    """Rows of an edited prompt set must not pass for rows of the old one."""
    place = data.draw(st.integers(min_value=0, max_value=len(texts) - 1))
    changed = [*texts[:place], texts[place] + "x", *texts[place + 1 :]]
    assert digest("chat", changed) != digest("chat", texts)
    assert digest("completion", texts) != digest("chat", texts)


def test_the_digest_is_the_same_on_every_machine() -> None:
    """sha256 of {"kind":"chat","texts":["왜?"]} in UTF-8, as `sha256sum` gives it."""
    assert digest("chat", ["왜?"]) == "ad2cb6a41fa0"


@given(salts, indexes)
def test_a_nonce_is_twelve_lower_case_hex_digits(salt: str, index: int) -> None:
    """A fixed length, so that all prompts of a set are nearly equally long."""
    mark = nonce(salt, index)
    assert len(mark) == 12
    assert set(mark) <= set("0123456789abcdef")


@given(st.lists(requests, min_size=2, max_size=50, unique=True), st.sampled_from([SENTENCES, QUESTIONS]))
def test_no_two_requests_share_their_first_twelve_characters(
    pairs: list[tuple[str, int]], prompt_set: PromptSet
) -> None:
    """Whatever differs, salt or index, no prefix can come from the engine's cache."""
    starts = {prompt_text(prompt_set, index, salt=salt, repetitions=1)[:12] for salt, index in pairs}
    assert len(starts) == len(pairs)


def test_a_nonce_is_the_same_on_every_machine() -> None:
    """The start of sha256 of salt, colon and index, as `sha256sum` gives it."""
    assert nonce("stage", 7) == "f07c80681c4a"


def test_ten_thousand_requests_of_a_stage_start_differently() -> None:
    """More than any stage sends."""
    assert len({nonce("stage", index) for index in range(10_000)}) == 10_000


@given(salts, indexes, st.integers(min_value=1, max_value=9), st.sampled_from([SENTENCES, QUESTIONS]))
def test_the_same_salt_and_index_give_the_same_prompt(
    salt: str, index: int, repetitions: int, prompt_set: PromptSet
) -> None:
    """A campaign can be repeated word for word."""
    first = prompt_text(prompt_set, index, salt=salt, repetitions=repetitions)
    again = prompt_text(prompt_set, index, salt=salt, repetitions=repetitions)
    assert first == again
    assert first.startswith(f"{nonce(salt, index)} ")


def test_a_completion_prompt_repeats_its_sentences() -> None:
    """Nonce, then all sentences, as often as asked."""
    text = prompt_text(SENTENCES, 3, salt="s", repetitions=2)
    assert text == f"{nonce('s', 3)} One two. Three four. One two. Three four."


def test_chat_prompts_go_round_and_are_never_repeated() -> None:
    """The texts come in turn; the number of repetitions is for completion sets only."""
    texts = [prompt_text(QUESTIONS, index, salt="s", repetitions=5).split(" ", 1)[1] for index in range(5)]
    assert texts == ["Why?", "How?", "Why?", "How?", "Why?"]


def test_a_completion_request_is_greedy_and_of_exact_length() -> None:
    """The whole body: nothing else is left to the engine's defaults unseen."""
    assert request_body(SENTENCES, 0, model="m", salt="s", repetitions=1, output_tokens=64) == (
        "/v1/completions",
        {
            "model": "m",
            "prompt": f"{nonce('s', 0)} One two. Three four.",
            "max_tokens": 64,
            "temperature": 0,
            "ignore_eos": True,
            "stream": False,
        },
    )


def test_a_chat_request_is_greedy_and_of_exact_length() -> None:
    """The same as a completion, with one user message instead of the prompt."""
    assert request_body(QUESTIONS, 1, model="m", salt="s", repetitions=1, output_tokens=256) == (
        "/v1/chat/completions",
        {
            "model": "m",
            "messages": [{"role": "user", "content": f"{nonce('s', 1)} How?"}],
            "max_tokens": 256,
            "temperature": 0,
            "ignore_eos": True,
            "stream": False,
        },
    )


@given(indexes, st.sampled_from([SENTENCES, QUESTIONS]))
def test_what_is_tokenized_is_what_is_sent(index: int, prompt_set: PromptSet) -> None:
    """Counted tokens are those of the request, with the chat template where one is used."""
    counted = tokenize_body(prompt_set, index, model="m", salt="s", repetitions=3)
    _, sent = request_body(prompt_set, index, model="m", salt="s", repetitions=3, output_tokens=1)
    expected: dict[str, object] = {"model": "m"}
    if prompt_set.kind == "completion":
        expected |= {"prompt": sent["prompt"]}
    else:
        expected |= {"messages": sent["messages"], "add_generation_prompt": True}
    assert counted == expected


@given(
    st.integers(min_value=1, max_value=200),
    st.integers(min_value=1, max_value=200),
    st.integers(min_value=0, max_value=100_000),
)
def test_the_repetitions_fit_and_one_more_would_not(one: int, step: int, spare: int) -> None:
    """The length comes as near to the target as whole repetitions can, from below."""
    target = one + spare
    repetitions = repetitions_for(target, one, one + step)
    assert repetitions >= 1
    assert one + (repetitions - 1) * step <= target < one + repetitions * step


def test_a_target_below_one_repetition_is_refused_with_both_numbers() -> None:
    """The user is told how long the shortest prompt is and what to set."""
    with pytest.raises(UserError) as caught:
        repetitions_for(20, 33, 60)
    assert str(caught.value) == (
        "the shortest synthetic prompt has 33 tokens, more than the 20 asked for: "
        "set the prompt length to 33 tokens or more"
    )


def test_an_engine_that_counts_no_more_tokens_for_two_repetitions_is_not_believed() -> None:
    """Dividing by zero, or by less, would hide the fault in the engine's answer."""
    with pytest.raises(EngineError) as caught:
        repetitions_for(100, 30, 30)
    assert str(caught.value) == "one repetition of the prompt counts 30 tokens, but two count 30"
