"""Search expressions: nested filters, comparisons by type, and what is refused."""

import pytest

from trackside.api.call import ServiceError
from trackside.api.search_expression import MOST_PARTS, Expression, value_at

RECORD = {
    "TrainingJobName": "job-1",
    "TrainingTimeInSeconds": 90,
    "EnableManagedSpotTraining": True,
    "CreationTime": 1_767_225_600.0,
    "InputDataConfig": [
        {"ChannelName": "train", "DataSource": {"S3DataSource": {"S3Uri": "s3://data/a"}}},
        {"ChannelName": "test", "DataSource": {"S3DataSource": {"S3Uri": "s3://data/b"}}},
    ],
    "FinalMetricDataList": [{"MetricName": "val:loss", "Value": 0.25}],
}
URI = "DataSource.S3DataSource.S3Uri"


def matches(name: str, operator: str, value: str = "") -> bool:
    given = {"Name": name, "Operator": operator, "Value": value}
    return Expression.parse({"Filters": [given]}).matches(RECORD)


def nested(*filters: dict[str, str], path: str = "InputDataConfig") -> Expression:
    given = {"NestedPropertyName": path, "Filters": [*filters]}
    return Expression.parse({"NestedFilters": [given]})


@pytest.mark.parametrize(
    ("channel", "uri", "expected"),
    [("train", "s3://data/a", True), ("train", "s3://data/b", False), ("none", "", False)],
)
@pytest.mark.parametrize("prefix", ["", "InputDataConfig."])
def test_one_item_must_pass_all_nested_filters(channel, uri, expected, prefix):
    expression = nested(
        {"Name": f"{prefix}ChannelName", "Value": channel},
        {"Name": f"{prefix}{URI}", "Operator": "Equals", "Value": uri},
    )
    assert expression.matches(RECORD) is expected
    assert expression.names == {"InputDataConfig"}


def test_nested_filters_on_anything_but_a_list_match_nothing():
    assert not nested({"Name": "x", "Operator": "NotExists"}, path="TrainingJobName").matches(
        RECORD
    )


@pytest.mark.parametrize(
    ("name", "operator", "value", "expected"),
    [
        ("TrainingTimeInSeconds", "GreaterThan", "9", True),  # as numbers: as texts 90 < 9
        ("TrainingTimeInSeconds", "Equals", "long", False),
        ("TrainingTimeInSeconds", "NotEquals", "long", True),
        ("EnableManagedSpotTraining", "Equals", "true", True),
        ("CreationTime", "LessThanOrEqualTo", "2026-01-01T00:00:00+00:00", True),
        ("CreationTime", "LessThan", "2026-01-01T00:00:00+00:00", False),
        ("Metrics.val:loss", "LessThan", "0.3", True),
        ("Missing", "NotEquals", "x", True),
        ("Missing", "Equals", "x", False),
        ("TrainingJobName.part", "Exists", "", False),
    ],
)
def test_values_are_compared_by_their_type(name, operator, value, expected):
    assert matches(name, operator, value) is expected


def test_names_of_sub_expressions_are_collected():
    inner = {"Filters": [{"Name": "Tags.team", "Value": "a"}], "Operator": "Or"}
    given = {"Filters": [{"Name": "TrainingJobName", "Value": "b"}], "SubExpressions": [inner]}
    assert Expression.parse(given).names == {"Tags.team", "TrainingJobName"}
    assert value_at({"HyperParameters": {"a.b": "1"}}, "HyperParameters.a.b") == "1"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Filters": [{"Value": "x"}]}, "has no Name"),
        ({"Filters": [{"Name": "a", "Operator": "Like", "Value": "x"}]}, "'Like' is not known"),
        ({"Filters": [{"Name": "a"}]}, "has no Value, which Equals needs"),
        ({"Operator": "Not"}, "'Not' of the search expression is not And or Or"),
        ({"NestedFilters": [{"Filters": []}]}, "has no NestedPropertyName"),
        ({"Filters": ["a"]}, "Filters of the search expression is not a list of objects"),
        ({"SubExpressions": [{}] * (MOST_PARTS + 1)}, f"more than {MOST_PARTS} entries"),
    ],
)
def test_an_invalid_expression_is_refused(given, message):
    with pytest.raises(ServiceError, match=message) as error:
        Expression.parse(given)
    assert error.value.code == "ValidationException"
