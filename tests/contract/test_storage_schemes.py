"""Every row of the table of storage schemes works wherever locations are used."""

import ast
from pathlib import Path

import obstore.store
import pytest

import trackside
from trackside.errors import AccessRefused, UnknownScheme
from trackside.records.spec import JobSpec
from trackside.storage.connect import QUICK, open_bucket
from trackside.storage.locate import local_path, locate
from trackside.system.job_environment import of_server
from trackside.texts import storage_schemes
from trackside.texts.storage_schemes import LOCATION_FORM, OBJECT_STORES, S3, SCHEMES, Scheme

SOURCE = Path(trackside.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
CLOUDS = [scheme for scheme in SCHEMES if not scheme.is_local]

each_scheme = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
each_cloud = pytest.mark.parametrize("scheme", CLOUDS, ids=lambda scheme: scheme.name)


@each_scheme
def test_a_job_may_name_a_location_of_the_scheme(scheme: Scheme) -> None:
    uri = f"{scheme.prefix}/data" if scheme.is_local else f"{scheme.prefix}bucket/data"
    request = {
        "TrainingJobName": "mnist-1",
        "HyperParameters": {"sagemaker_program": '"train.py"'},
        "OutputDataConfig": {"S3OutputPath": uri},
    }
    assert JobSpec.from_request(request).output.uri == uri
    assert scheme.prefix in LOCATION_FORM
    assert (local_path(uri) is not None) == scheme.is_local
    assert uri.startswith(OBJECT_STORES) != scheme.is_local


@each_scheme
def test_a_slip_in_the_slashes_is_no_folder_of_that_name(scheme: Scheme, tmp_path: Path) -> None:
    with pytest.raises(UnknownScheme, match=f"{scheme.name}:/bucket"):
        locate(f"{scheme.name}:/bucket", home=tmp_path)


@each_cloud
def test_a_bucket_is_opened_or_its_credentials_are_asked_for(scheme: Scheme) -> None:
    assert hasattr(obstore.store, scheme.client)
    refusal = ""
    try:
        open_bucket(scheme, "bucket", QUICK)
    except AccessRefused as error:
        refusal = str(error)
    assert scheme.missing_credentials
    assert refusal == "" or scheme.missing_credentials in refusal


@each_cloud
def test_its_credentials_do_not_reach_the_scripts_of_a_server(scheme: Scheme) -> None:
    assert scheme.variables
    assert of_server({f"{prefix}ANYTHING": "1" for prefix in scheme.variables}) == {}


@each_scheme
def test_it_is_documented(scheme: Scheme) -> None:
    assert f"| `{scheme.prefix}" in (DOCS / "storage.md").read_text()
    assert f"`{scheme.prefix}`" in (DOCS / "errors.md").read_text()


def test_no_other_module_lists_schemes() -> None:
    """S3 alone may be named: the embedded buckets and the server are S3's."""
    others = {scheme.name for scheme in CLOUDS} - {S3.name}
    written = others | {f"{name}://" for name in others}
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != Path(storage_schemes.__file__)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in written
    ]
    assert wrong == []
