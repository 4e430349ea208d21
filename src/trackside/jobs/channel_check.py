"""Checks that a job's channels are not empty, before the job is created."""

from trackside.errors import InputError, ObjectNotFound, StorageError, UnknownScheme
from trackside.records.layout import Home
from trackside.records.spec import Channel, JobSpec
from trackside.storage.locate import Location, locate


def check_channels(spec: JobSpec, home: Home) -> None:
    for channel in spec.inputs:
        try:
            location = locate(channel.uri, home=home.root)
            found = _has_objects(channel, location)
        except UnknownScheme:
            raise
        except StorageError as error:
            raise type(error)(f"Channel {channel.name!r} cannot be read: {error}") from error
        if not found:
            raise InputError(_nothing_there(channel, location))


def _has_objects(channel: Channel, location: Location) -> bool:
    if channel.data_type == "S3Prefix":
        return next(location.store.list(location.key), None) is not None
    try:
        location.store.stat(location.key)
    except ObjectNotFound:
        return False
    return True


def _nothing_there(channel: Channel, location: Location) -> str:
    """SageMaker's own message where it has one: programs match on it."""
    way_out = "Put the data there first, or correct the location."
    if channel.data_type != "S3Prefix":
        return f"Channel {channel.name!r}: there is no manifest at {channel.uri!r}. {way_out}"
    if channel.uri.startswith("s3://"):
        found = f'No S3 objects found under S3 URL "{channel.uri}" given in input data source.'
        return f"{found} Channel {channel.name!r} would be empty. {way_out}"
    if location.local is not None and not location.local.exists():
        return f"Channel {channel.name!r}: {str(location.local)!r} does not exist. {way_out}"
    return f"Channel {channel.name!r}: {location.uri!r} holds no files. {way_out}"
