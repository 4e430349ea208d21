"""Filter patterns about fields; `test_logs` has those about terms."""

import pytest

from trackside.api.call import ServiceError
from trackside.api.log_pattern import pattern

MESSAGE = """ {"level": "ERROR", "step": 7, "loss": 2.5, "ok": false, "none": null, "code": "404",
 "host": {"name": "algo-1", "ports": [80, 443]}, "a.b": "dotted"} """


@pytest.mark.parametrize(
    "text",
    [
        '{ $.level = "ERROR" }',
        "{ $.level = ERR* }",
        "{$.level=*R*O*}",
        "{ $.level != INFO }",
        "{ $.step = 7 }",
        "{ $.step >= 7 && $.loss < 3e0 }",
        "{ $.step > 7 || $.host.ports[1] = 443 }",
        "{ ($.step = 1 || $.step = 7) && ($.ok IS FALSE) }",
        "{ $.none IS NULL && $.missing NOT EXISTS && $.level EXISTS }",
        "{ $.code = 404 }",
        "{ $.host.name = algo-1 }",
        "{ $['a.b'] = dotted }",
    ],
)
def test_a_message_fits_by_its_fields(text: str):
    assert pattern(text)(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "{ $.level = error }",
        "{ $.level = ERR }",
        "{ $.level = *ERRO*OR }",
        "{ $.missing != 1 }",
        "{ $.level > 3 }",
        "{ $.ok = 0 }",
        "{ $.step = 7 && $.step = 8 }",
        "{ $.level NOT EXISTS }",
        "{ $.host.ports[2] = 443 }",
        "{ $.missing IS NULL }",
    ],
)
def test_a_message_does_not_fit_by_its_fields(text: str):
    assert not pattern(text)(MESSAGE)


@pytest.mark.parametrize("message", ["plain", "{ half", "[1]", '{"a":' * 100_000])
def test_a_message_that_is_no_object_matches_nothing(message: str):
    assert not pattern("{ $.a NOT EXISTS }")(message)


@pytest.mark.parametrize(
    "text",
    [
        "{ $.a = 1",
        "{ }",
        "{ a = 1 }",
        "{ $.a }",
        "{ $.a = 1 $.b = 2 }",
        "{ ($.a = 1 }",
        "{ $.a > word }",
        "{ $.a IS WRONG }",
        "{ $.a = %x+% }",
        "{ " + "(" * 50 + "$.a = 1" + ")" * 50 + " }",
    ],
)
def test_an_invalid_pattern_is_an_error(text: str):
    with pytest.raises(ServiceError, match="Invalid filter pattern"):
        pattern(text)
