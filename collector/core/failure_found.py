"""What was raised, with the rule that knows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from collector.core.failure_log import Event
from collector.core.failure_rules import RULES, Rule
from collector.core.failure_words import NOT_SAID


@dataclass(frozen=True, slots=True)
class Found:
    """An event, with the rule that knows it."""

    event: Event
    rule: Rule | None
    frames: Sequence[str]  # of everything that was raised while handling one another
    chain: Sequence[Event]

    @property
    def when(self) -> tuple[str, int]:
        """What sorts by time, and by place where the clock is too coarse or missing."""
        return self.event.stamp, self.event.line.number

    @property
    def category(self) -> str:
        return self.rule.category if self.rule else "other"

    @property
    def follows(self) -> bool:
        return self.rule is not None and self.rule.follower

    @property
    def by_front_end(self) -> bool:
        return self.event.line.process.lower().startswith("apiserver")


def is_fatal(text: str) -> bool:
    """Whether a plain line is the end by itself."""
    return any(rule.loose and rule.pattern.search(text) for rule in RULES)


def found_in(events: Sequence[Event], echo: str) -> list[Found]:
    """Judge what was raised, one of a chain of exceptions; by the clocks of the processes, then by place."""
    groups: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        groups[event.group].append(event)
    return sorted((_judge(group, echo) for group in groups.values()), key=lambda each: each.when)


def _judge(group: Sequence[Event], echo: str) -> Found:
    """Find the first rule that knows any of a chain of exceptions; unknown, the last one is what it came to."""
    heard = [(event, NOT_SAID.sub("", event.said), _where(event, echo)) for event in group]
    frames = [frame for event in group for frame in event.frames]
    for rule in RULES:
        for event, said, where in heard:
            allowed = rule.loose or not event.loose
            if allowed and rule.pattern.search(said) and (rule.within is None or rule.within.search(where)):
                return Found(event, rule, frames, group)
    return Found(group[-1], None, frames, group)


def _where(event: Event, echo: str) -> str:
    """What a rule's `within` is held against: its frames come last, the one that raised at the very end."""
    return " ".join([echo, event.line.process, event.line.source, *event.frames])
