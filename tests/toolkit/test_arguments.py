import pytest

from trackside.toolkit.arguments import decode, split, to_arguments, to_text

# In the file, argument, variable: specification 6.1, confirmed against sagemaker-training 5.1.4.
VALUES = [
    ("0.1", "0.1", "0.1"),
    ("1e5", "100000.0", "100000.0"),
    ("2.0", "2.0", "2.0"),
    ("1e-05", "1e-05", "1e-05"),
    ("007", "007", "007"),
    ("0x10", "0x10", "0x10"),
    ("1.2.3", "1.2.3", "1.2.3"),
    (" 12 ", "12", "12"),
    ("true", "True", "true"),
    ("false", "False", "false"),
    ("True", "True", "True"),
    ("None", "None", "None"),
    ("'x'", "'x'", "'x'"),
    ("null", "", ""),
    ("", "", ""),
    ('"hello"', "hello", "hello"),
    ("hello", "hello", "hello"),
    ('[1, "a", true, null]', "[1, 'a', True, None]", '[1,"a",true,null]'),
    ('{"b":{"y":2},"a":1}', "a=1,b={'y': 2}", '{"a":1,"b":{"y":2}}'),
    ("{}", "", "{}"),
    ("[]", "[]", "[]"),
    ("NaN", "nan", "NaN"),
    ("Infinity", "inf", "Infinity"),
    ("-Infinity", "-inf", "-Infinity"),
    (100000000000000000000, "100000000000000000000", "100000000000000000000"),
    (3, "3", "3"),
    (1.5, "1.5", "1.5"),
    (True, "True", "true"),
    (None, "", ""),
    ([1, {"a": None}], "[1, {'a': None}]", '[1,{"a":null}]'),
    ({"z": 1, "a": [1]}, "a=[1],z=1", '{"a":[1],"z":1}'),
    ('it\'s "q" $HOME', 'it\'s "q" $HOME', 'it\'s "q" $HOME'),
    ("a\nb", "a\nb", "a\nb"),
    ("héllo ☃", "héllo ☃", "héllo ☃"),
    ('["☃"]', "['☃']", '["\\u2603"]'),
]

# Key and the option it becomes: specification 6.3.
NAMES = [
    ("batch-size", "--batch-size"),
    ("learning_rate", "--learning_rate"),
    ("x", "-x"),
    ("9", "-9"),
    ("-lead", "---lead"),
    ("with space", "--with space"),
    ("a.b", "--a.b"),
    ("", ""),
]


@pytest.mark.parametrize(("raw", "argument", "variable"), VALUES)
def test_a_value_becomes_an_argument_and_a_variable(raw: object, argument: str, variable: str):
    decoded = decode({"key": raw})
    assert to_arguments(decoded) == ["--key", argument]
    assert to_text(decoded["key"]) == variable


@pytest.mark.parametrize(("key", "option"), NAMES)
def test_a_key_becomes_an_option_verbatim(key: str, option: str):
    assert to_arguments({key: 1}) == [option, "1"]


def test_arguments_are_sorted_by_code_point():
    assert to_arguments({"b": 1, "a": 2, "B": 3, "ab": 4})[::2] == ["-B", "-a", "--ab", "-b"]


def test_arguments_can_keep_the_order_of_the_request():
    assert to_arguments({"b": 1, "a": 2}, sort=False) == ["-b", "1", "-a", "2"]


def test_a_value_too_deep_to_be_json_stays_text():
    deep = "[" * 100_000
    assert decode({"deep": deep}) == {"deep": deep}


def test_reserved_names_are_kept_from_the_script():
    parts = split(
        {
            "lr": 1,
            "sagemaker_program": "train.py",
            "sagemaker_mpi_enabled": True,
            "_tuning_objective_metric": "accuracy",
            "default_user_module_name": "m",
        }
    )
    assert parts.user == {"lr": 1}
    assert parts.framework == {"sagemaker_mpi_enabled": True}
    assert parts.own == {"sagemaker_program": "train.py"}
