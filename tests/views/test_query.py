"""The query language: what matches, what is refused and where, and that nothing crashes it."""

import math
import random
from collections.abc import Sequence
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.errors import BadQuery
from trackside.views.query.query import Query, parse, parse_text_query
from trackside.views.query.query_fields import FIELD, FIELDS
from trackside.views.query.query_syntax import MOST_DEPTH
from trackside.views.query.search_conditions import Name, Value

NOW = datetime(2026, 11, 17, 12, 30)


def at(*parts: int) -> float:
    return datetime(*parts).timestamp()  # type: ignore[arg-type]


JOB: dict[Name, list[Value]] = {
    Name("name", FIELD): ["bert_large.v2", "bert-large-v2--x5"],
    Name("status", FIELD): ["InProgress", "Training"],
    Name("is", FIELD): ["live", "sick"],
    Name("owner", FIELD): ["ci"],
    Name("created", FIELD): [at(2026, 11, 16, 8)],
    Name("started", FIELD): [at(2026, 11, 16, 9)],
    Name("seconds", FIELD): [7200.0],
    Name("age", FIELD): [102_600.0],
    Name("step", FIELD): [1200.0],
    Name("progress", FIELD): [40.0],
    Name("findings", FIELD): [2.0],
    Name("finding", FIELD): ["VanishingGradient", "Checkup"],
    Name("host", FIELD): ["gpu-3"],
    Name("hosts", FIELD): [4.0],
    Name("tag", FIELD): ["team", "vision", "team=vision"],
    Name("note", FIELD): ["try with more warm-up"],
    Name("gpu", FIELD): [12.5],
    Name("lr", "param"): ["0.001"],
    Name("optimizer", "param"): ['"AdamW"'],
    Name("memory", "param"): ["low"],
    Name("validation:loss", "metric"): [0.25],
    Name("grad", "metric"): [math.nan],
    Name("team", "tag"): ["vision"],
}
"""What a job has."""


def lookup(name: Name) -> Sequence[Value]:
    kinds = [name.kind] if name.kind else ["param", "metric", "tag"]
    return next((JOB[found] for kind in kinds if (found := Name(name.text, kind)) in JOB), [])


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("   ", True),
        # words of the name
        ("bert", True),
        ("BERT large", True),
        ("bert gpt", False),
        ("bert_large.v2", True),
        ("bert-large-v2--x5", True),
        ('"bert_l"', True),
        ('"bert l"', False),
        ("-gpt", True),
        ("not gpt", True),
        ("-bert", False),
        ("--bert", True),
        ("~/^bert.*v[0-9]$/", True),
        ("~/^BERT/", False),
        ("~/^BERT/i", True),
        ("-~/^gpt/", True),
        # fields
        ("status:inprogress", True),
        ("status:Running", True),
        ("status:training", True),
        ("status:failed,stopped", False),
        ("status:failed,running", True),
        ("status:failed,", False),
        ("-status:failed", True),
        ("status!=failed", True),
        ("status=INPROGRESS", True),
        ("status:s*", False),
        ("status:train*", True),
        ("is:live", True),
        ("is:finished", False),
        ("owner:CI", True),
        ("owner=CI", False),
        ("owner=ci", True),
        ("name:bert*", True),
        ("name:*large*2", True),
        ("name:bert", False),
        ('name:"bert*"', False),
        ("name~LARGE", True),
        ("name~/large|small/", True),
        ("note~warm-up", True),
        ('note~"more warm"', True),
        ("findings>0", True),
        ("findings:2", True),
        ("finding:vanishinggradient", True),
        ("finding!=Checkup", False),
        ("finding!=Overfit", True),
        ("host:gpu-*", True),
        ("hosts>=4 hosts<5", True),
        ("step>1e3", True),
        ("progress<50%", True),
        ("progress>=50", False),
        ("gpu<20%", True),
        ("cpu<20%", False),
        ("-cpu<20%", True),
        ("seconds>1h", True),
        ("seconds>2h30m", False),
        ("seconds:7200", True),
        ("age<2d", True),
        # times
        ("created>2d", True),
        ("created>1d", False),
        ("created<1d", True),
        ("created:yesterday", True),
        ("created=2026-11-16", True),
        ("created!=2026-11-16", False),
        ("created>2026-11-16", True),
        ("created<=2026-11-16", True),
        ("created<2026-11-16", False),
        ("created>2026-11-16T08:30", False),
        ("started>=2026-11-16T09:00", True),
        ("ended>today", False),
        ("-ended>today", True),
        # hyperparameters, metrics, tags
        ("lr=1e-3", True),
        ("lr:0.001", True),
        ("lr > 1e-4 lr<=0.001", True),
        ("lr!=0.1", True),
        ("momentum!=0.1", False),
        ("param.lr<1", True),
        ("metric.lr<1", False),
        ("optimizer:adamw", True),
        ("optimizer=adamw", False),
        ("optimizer=AdamW", True),
        ("optimizer>a", False),
        ("optimizer~/^Adam/", True),
        ('"validation:loss"<0.3', True),
        ('metric."validation:loss">=0.3', False),
        ("grad:nan", True),
        ("grad!=nan", False),
        ("grad<1", False),
        ("tag:team", True),
        ("tag:vision", True),
        ("tag:team=vision", True),
        ("tag:audio", False),
        ("tag.team:vision,audio", True),
        ("team=vision", True),
        ("memory<50%", False),
        ("param.memory:low", True),
        ('"memory":low', True),
        ("has:lr", True),
        ("has:metric.lr,tag.team", True),
        ("-has:momentum", True),
        # together
        ("gpt or bert", True),
        ("gpt OR status:failed", False),
        ("bert and status:running AND lr<1", True),
        ("(gpt or bert) -is:finished", True),
        ("gpt bert or lr<1", True),
        ("gpt (bert or lr<1)", False),
        ("not (gpt or lr>1)", True),
        ("-(bert lr<1)", False),
        ("((bert))", True),
        ("status:failed or (owner:ci findings>0)", True),
    ],
)
def test_jobs_match(text: str, fits: bool):
    query = parse(text, NOW)
    assert query.matches(lookup) is fits
    assert parse(str(query), NOW) == query


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('"open', 0, "quote is not closed"),
        ("bert (a", 5, r"`\(` is not closed"),
        ("bert)", 4, r"`\)` closes nothing"),
        ("()", 0, "nothing between"),
        ("name~/a", 5, "pattern is not closed"),
        ("name~/a(b/", 7, r"no pattern: this `\(` is not closed"),
        (r"x ~/(a)\1/", 7, "no meaning here"),
        ("status:", 7, "value is missing behind `status:`"),
        ("lr>", 3, "value is missing behind `lr>`"),
        (">3", 0, "name is missing before `>`"),
        ("a or", 4, "side of `or` is empty"),
        ("or a", 4, "side of `or` is empty"),
        ("bert -", 6, "nothing to negate"),
        ("not or a", 4, "nothing to negate"),
        ("status:faild", 7, "Did you mean 'Failed'"),
        ("status:xyz", 7, "Known: InProgress"),
        ("is:alive", 3, "Did you mean 'live'"),
        ("x created>soon", 10, "'soon' is no time"),
        ("created:2d", 8, "'2d' is no day"),
        ("created>0001-01-01", 8, "is no time"),
        ("seconds>long", 8, "'long' is no duration"),
        ("findings>many", 9, "'many' is no number"),
        ("progress<half", 9, "no percentage. Write one like 50%"),
        ("owner>x", 0, "`owner` is a text"),
        ("has~/x/", 0, "`has` needs a name"),
        ("-" * 40 + "a", MOST_DEPTH + 1, "levels are nested"),
        ("a" * 2001, 2000, "2,001 characters"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_place(text: str, place: int, message: str):
    with pytest.raises(BadQuery, match=message) as refused:
        parse(text, NOW)
    assert refused.value.at == place
    assert refused.value.message == f"{refused.value.what} {refused.value.advice}"


def test_a_query_says_what_must_be_known():
    query = parse('bert status:failed lr>1 metric.loss<2 -tag.team:x has:"a b",seed bert')
    assert query.names == (
        Name("name", FIELD),
        Name("status", FIELD),
        Name("lr"),
        Name("loss", "metric"),
        Name("team", "tag"),
        Name("a b"),
        Name("seed"),
    )


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("statsu:failed", "Did you mean 'status'?"),
        ("bert -(learning_rat>1)", "Did you mean 'learning_rate'?"),
        ("metric.lss<1", "Did you mean 'metric.loss'?"),
        ("has:learning_rte", "Did you mean 'learning_rate'?"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(text: str, advice: str):
    known = {Name("learning_rate", "param"), Name("loss", "metric")}
    with pytest.raises(BadQuery, match="No job has") as refused:
        parse(text).check_names(known.__contains__, known)
    assert refused.value.advice == advice


def test_a_name_that_is_near_to_none_is_no_slip():
    known = {Name("learning_rate", "param")}
    parse("momentum>1 param.learning_rate>1 name:x").check_names(known.__contains__, known)


@pytest.mark.parametrize(
    ("query", "text", "fits"),
    [
        ("", "anything", True),
        ("LOSS", "train/loss", True),
        ("loss train", "train/loss", True),
        ("loss -train", "train/loss", False),
        ("acc or loss", "train/loss", True),
        ('"train loss"', "train/loss", False),
        ("error:", "ValueError: no", True),
        ("a<b", "if a<b then", True),
        ("f1(macro)", "val/f1(macro)", True),
        ("(acc or f1(macro)) val", "val/f1(macro)", True),
        ("~/^train/", "train/loss", True),
        (r"~/^train\/l/ -~/LOSS/", "train/loss", True),
        ("~/LOSS$/i", "train/loss", True),
        ("status:failed", "the status:failed line", True),
    ],
)
def test_texts_match(query: str, text: str, fits: bool):
    parsed = parse_text_query(query)
    assert parsed.matches(text) is fits
    assert parse_text_query(str(parsed)) == parsed


def test_a_text_query_is_refused_with_its_place_too():
    with pytest.raises(BadQuery, match="nothing to repeat") as refused:
        parse_text_query("a ~/x|*/")
    assert refused.value.at == 6


WORDS = ["bert", "lr", "or", "AND", "not", "status", "created", "seconds", "progress", "is", "tag"]
WORDS += ["param.lr", 'metric."a b"', '"q', '"', "x y", "failed", "2d", "1e-3", "50%", "live", "*"]
WORDS += ["has", "finding", "metric.", "(", ")", "-", ":", "<", ">=", "=", "!=", "~", "/a+/", "/"]
WORDS += ["/(/i", ",", "\\", " ", "\t", "é", "name", "\x00"]
queries = st.one_of(
    st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=12).map("".join)
)


@given(queries)
def test_any_text_is_a_query_or_refused_with_a_place(text: str):
    query = parsed_or_none(text)
    if query is None:
        return
    assert query.matches(lookup) in (True, False)
    assert parse(str(query), NOW) == query
    assert all(name.kind != FIELD or name.text in FIELDS for name in query.names)


@given(queries)
def test_any_text_finds_texts_or_is_refused(text: str):
    try:
        query = parse_text_query(text)
    except BadQuery as refused:
        place = refused.at
    else:
        assert query.matches("some text") in (True, False)
        assert parse_text_query(str(query)) == query
        place = 0
    assert 0 <= place <= len(text)


def parsed_or_none(text: str) -> Query | None:
    try:
        return parse(text, NOW)
    except BadQuery as refused:
        place, message = refused.at, refused.message
    assert 0 <= place <= len(text)
    assert message.endswith((".", "?"))
    return None


def test_a_query_has_few_patterns_and_none_takes_long():
    assert str(parse(" or ".join(["name~/a/"] * 10)))
    with pytest.raises(BadQuery, match="more than 10 patterns"):
        parse(" or ".join(["name~/a/"] * 11))
    query = parse("note~/a[ab]{200}[ab]{180}c/")
    draw = random.Random(1)
    texts = ("".join(draw.choice("ab") for _ in range(4000)) for _ in range(1000))
    with pytest.raises(BadQuery, match="takes too long") as refused:
        any(query.matches(lambda name: [next(texts)]) for _ in range(1000))
    assert refused.value.at == 6
