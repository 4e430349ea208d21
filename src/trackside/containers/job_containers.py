"""The containers of jobs: the label by which they are found, and removal of what is left."""

import logging

from trackside.containers.engine_client import Engine, EngineError
from trackside.files import damaged_files
from trackside.records.layout import HostFolder

logger = logging.getLogger(__name__)

MARK_LABEL = "trackside.nonce"


def remove_container(host: HostFolder) -> None:
    """With its network, unless another host is on it. Does nothing for other sandboxes; an engine
    that does not respond is logged."""
    facts = damaged_files.read_object(host.container)
    intent = damaged_files.read_object(host.sandbox / "intent.json")
    if facts is None or intent is None:
        return
    engine = Engine(str(facts.get("engine", "")))
    try:
        if container := engine.find(f"{MARK_LABEL}={intent.get('mark')}"):
            engine.remove(container)
        if network := facts.get("own_network"):
            engine.remove_network(str(network))
    except EngineError as error:
        logger.warning("a container of %s may be left: %s", host.root, error)
