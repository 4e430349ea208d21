"""A regular expression of a user, matched in a time that is linear in the text.

Python's `re` backtracks: `(a+)+$` takes years for forty letters, and holds the interpreter's lock
meanwhile. Here all ways to match are followed at once (Thompson's construction), and each set of
places in the pattern, with the next character, is computed once (a lazily built automaton). A
search tells only whether there is a match. For names of jobs and metrics; a million log lines need
more speed.
"""

from dataclasses import dataclass, field

from trackside.views.query.pattern_syntax import (
    Choice,
    Edge,
    Node,
    One,
    PatternError,
    Repeat,
    Row,
    Test,
    is_word,
    read_pattern,
)

MOST_PLACES = 400
"""Of the automaton: repeats with counts are copies."""
_MOST_KEPT = 10_000
"""Computed transitions."""
_MOST_VISITED = 1_000_000
"""Places that are followed in all texts together: about a second. What is computed once for the
characters of a text is not counted again."""
_EXAMINED_CHARACTERS = 4096
"""Of each text: the rest is not searched."""


@dataclass(frozen=True, slots=True)
class _Consume:
    test: Test
    next: int


@dataclass(frozen=True, slots=True)
class _Fork:
    nexts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _At:
    edge: str
    next: int


_Place = _Consume | _Fork | _At | None
"""None is the end of the pattern."""


@dataclass(slots=True, eq=False)
class _State:
    """Where the pattern may be after the characters so far."""

    places: frozenset[int]
    before: str
    """The kind of the last character: `w` for a word's, `-` for others, "" at the start."""
    after: "dict[str, _State | None]" = field(default_factory=dict)
    """By the next character, "" for the end of the text. None: there is a match."""


class LinearPattern:
    """`PatternError` for a text that is no pattern, or that is too long."""

    def __init__(self, text: str, *, ignores_case: bool = False) -> None:
        self.text = text
        node = read_pattern(text, ignores_case=ignores_case)
        self._program: list[_Place] = [None]
        self._first = self._compiled(node, 0)
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._num_kept = 0
        self._num_visited = 0

    def search(self, text: str) -> bool:
        """`PatternError` when it has taken too long, in this and all texts before."""
        state = self._state(frozenset(), "")
        for character in (*text[:_EXAMINED_CHARACTERS], ""):
            try:
                following = state.after[character]
            except KeyError:
                following = self._computed(state, character)
            if following is None:
                return True
            state = following
        return False

    def _compiled(self, node: Node, then: int) -> int:
        """The index of the first place of a part that continues at `then`."""
        match node:
            case One(test):
                return self._add(_Consume(test, then))
            case Edge(kind):
                return self._add(_At(kind, then))
            case Row(parts):
                for part in reversed(parts):
                    then = self._compiled(part, then)
                return then
            case Choice(parts):
                return self._add(_Fork(tuple(self._compiled(part, then) for part in parts)))
            case Repeat():
                return self._repeated(node, then)

    def _repeated(self, node: Repeat, then: int) -> int:
        last = then
        if node.most is None:
            last = self._add(_Fork(()))
            self._program[last] = _Fork((self._compiled(node.part, last), then))
        else:
            for _ in range(node.most - node.least):
                last = self._add(_Fork((self._compiled(node.part, last), then)))
        for _ in range(node.least):
            last = self._compiled(node.part, last)
        return last

    def _add(self, place: _Place) -> int:
        if len(self._program) > MOST_PLACES:
            raise PatternError("its repeats with counts are too many", 0)
        self._program.append(place)
        return len(self._program) - 1

    def _state(self, places: frozenset[int], before: str) -> _State:
        key = (places, before)
        if (known := self._states.get(key)) is None:
            known = self._states[key] = _State(places, before)
        return known

    def _computed(self, state: _State, character: str) -> _State | None:
        if self._num_kept >= _MOST_KEPT:
            self._states.clear()
            self._num_kept = 0
        self._num_kept += 1
        reached = self._reached(state, character)
        found = None
        if 0 not in reached:
            places = (self._program[index] for index in reached)
            moved = frozenset(
                place.next
                for place in places
                if isinstance(place, _Consume) and character and place.test(character)
            )
            found = self._state(moved, _kind(character))
        state.after[character] = found
        return found

    def _reached(self, state: _State, character: str) -> set[int]:
        """Without consuming a character. A match may begin anywhere."""
        reached: set[int] = set()
        waiting = [*state.places, self._first]
        while waiting:
            index = waiting.pop()
            if index in reached:
                continue
            reached.add(index)
            place = self._program[index]
            if isinstance(place, _Fork):
                waiting += place.nexts
            elif isinstance(place, _At) and _is_at(place.edge, state.before, character):
                waiting.append(place.next)
        self._num_visited += len(reached)
        if self._num_visited > _MOST_VISITED:
            raise PatternError("it takes too long; use fewer repeats with counts", 0)
        return reached


def _kind(character: str) -> str:
    return "w" if is_word(character) else "-"


def _is_at(edge: str, before: str, character: str) -> bool:
    """Between a character of the kind `before` and this one."""
    if edge == "^":
        return not before
    if edge == "$":
        return not character
    is_boundary = (before == "w") is not (bool(character) and is_word(character))
    return is_boundary if edge == "b" else not is_boundary
