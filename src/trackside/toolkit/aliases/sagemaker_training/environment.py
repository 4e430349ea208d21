"""`Environment`, as scripts use it: attributes, a mapping, arguments and variables."""

from collections.abc import Iterator, Mapping

from trackside.toolkit.arguments import to_arguments
from trackside.toolkit.environment import read_job, read_settings
from trackside.toolkit.variables import sm_variables


class Environment(Mapping[str, object]):
    """The keys of SM_TRAINING_ENV, each an attribute too."""

    def __init__(self) -> None:
        self._job = read_job(read_settings())
        self._values = self._job.environment._asdict()

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"The training environment has no {name!r}.")
        return self._values[name]

    def __getitem__(self, key: str) -> object:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def to_cmd_args(self) -> list[str]:
        return to_arguments(self._job.environment.hyperparameters)

    def to_env_vars(self) -> dict[str, str]:
        return sm_variables(self._job.environment, self._job.arguments)
