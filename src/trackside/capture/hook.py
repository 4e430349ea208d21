"""The hook a script registers its model with: smdebug's names, arguments and attributes.

`step_course.py` counts steps, `stepper.py` takes values, `sink.py` passes them on. This is the
boundary between training and capture: misuse raises at the call, everything else is caught.
"""

import atexit
import logging
import os
import time
from collections.abc import Iterable, Mapping
from functools import partial
from numbers import Number
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.current_hook import (
    begin_writing,
    current_hook,
    del_hook,
    end_writing,
    set_hook,
)
from trackside.capture.environment import CaptureEnvironment
from trackside.capture.exceptions import SMDebugError, SMDebugTypeError, SMDebugValueError
from trackside.capture.failures import Failures, guarded
from trackside.capture.hangs.watch import start_watch
from trackside.capture.hook_overrides import Extensible
from trackside.capture.model.module_hooks import RootTap
from trackside.capture.model.names import Names
from trackside.capture.modes import ModeKeys
from trackside.capture.selection.collection import (
    Collection,
    CollectionKeys,
    CollectionManager,
    flatten_names,
)
from trackside.capture.selection.configuration import (
    HookConfiguration,
    VitalsChoice,
    read_configuration,
)
from trackside.capture.selection.plan import Origin
from trackside.capture.selection.reduction_config import ReductionConfig
from trackside.capture.selection.save_config import SaveConfig, SaveConfigMode
from trackside.capture.sinks.metrics_file import MetricsFile
from trackside.capture.sinks.sink import Sink
from trackside.capture.smdebug_log import follow_variables
from trackside.capture.steps.loss_finder import LossFinder
from trackside.capture.steps.rank_figures import RankFigures
from trackside.capture.steps.rank_times import RankTimes
from trackside.capture.steps.resume import ResumeState
from trackside.capture.steps.step_course import StepCourse
from trackside.capture.steps.step_events import start_step_clock
from trackside.capture.steps.stepper import GradientsAt, Stepper
from trackside.capture.trial_layout import rank_times_file
from trackside.capture.vitals.anatomy_facts import AnatomyFacts
from trackside.capture.vitals.updates import has_closure
from trackside.capture.vitals.vitals import COLLECTION as VITALS
from trackside.capture.vitals.vitals import Vitals
from trackside.capture.writing.trial_output import TrialOutput, rank_and_size
from trackside.capture.writing.writer import SegmentWriter, WriterLimits
from trackside.settings import Settings
from trackside.storage.locate import locate

logger = logging.getLogger(__name__)

_REPORTED_SECONDS = 1.0
"""Where a job's rules leave saved steps so long to share a file, what they find is reported."""
_PATIENT_SECONDS = 3.0
"""So long there from half a minute on: as often as a supervisor uploads them."""


class Hook(Extensible):
    """Usually one per process; `get_hook()` returns the newest."""

    def __init__(
        self,
        out_dir: str | Path | None = None,
        export_tensorboard: bool = False,
        tensorboard_dir: str | None = None,
        dry_run: bool = False,
        reduction_config: ReductionConfig | None = None,
        save_config: SaveConfig | SaveConfigMode | Mapping[Any, Any] | None = None,
        include_regex: list[str] | str | None = None,
        include_collections: Iterable[Any] | None = None,
        save_all: bool = False,
        include_workers: str = "one",
        *,
        ring: int = 0,
        literal_names: bool = False,
        gradients_at: GradientsAt = "backward",
        vitals: VitalsChoice = "on",
        environment: CaptureEnvironment | None = None,
    ) -> None:
        """`environment` is this process's own unless given."""
        follow_variables()
        if out_dir is None:
            raise RuntimeError("out_dir is a required argument")
        if ring < 0:
            raise SMDebugValueError(f"ring={ring!r} is not a number of steps. 0 switches it off.")
        for name, choice, known in (
            ("vitals", vitals, get_args(VitalsChoice)),
            ("gradients_at", gradients_at, get_args(GradientsAt)),
        ):
            if choice not in known:
                choices = ", ".join(map(repr, known))
                raise SMDebugValueError(f"{name}={choice!r} is not one of {choices}.")
        environment = environment or CaptureEnvironment.load()
        self.out_dir = os.path.expanduser(out_dir)
        self.dry_run = dry_run
        self.tensorboard_dir = tensorboard_dir or (
            f"{self.out_dir}/tensorboard" if export_tensorboard else None
        )
        self.save_config = SaveConfig.parse(save_config)
        self.reduction_config = reduction_config or ReductionConfig(save_raw_tensor=True)
        self.include_workers = include_workers
        self.collection_manager = CollectionManager()
        self.include_collections = _included(
            self.collection_manager, include_collections, include_regex
        )
        self._save_all = save_all or CollectionKeys.ALL in self.include_collections
        self._literal_names = literal_names
        self._under_platform = bool(environment.job_name)
        self._metrics = MetricsFile(environment.metrics_folder)
        self.rank, self.num_workers = rank_and_size()
        self.worker = f"worker_{self.rank}"
        self._pid = os.getpid()
        self._is_closed = False
        self._registered: set[int] = set()
        self._handles: list[Any] = []
        self._saves_tensors = vitals != "only"
        self._watches_optimizers = False

        self._output = TrialOutput(
            self.out_dir,
            rank=self.rank,
            num_workers=self.num_workers,
            all_write=include_workers == "all",
            dry_run=dry_run,
        )
        writes = self._output.is_writer
        self.failures = Failures(self._output.location.local)
        self._prepare_extensions()
        self._stepper = Stepper(
            self.failures,
            gradients_at=gradients_at,
            keep_gradients=self.num_workers > 1,
            takes_modules=not self.takes_modules_itself(),
            takes_gradients=not self.overrides("backward_hook"),
        )
        self._loss_finder = LossFinder(self._stepper, self.failures)
        self.collection_manager.gradients_at = gradients_at
        self._outlet = Sink(
            self._output.location,
            self.failures,
            writer=SegmentWriter(self.out_dir, self.worker, limits=_limits(environment))
            if writes and not dry_run
            else None,
            tensorboard_folder=self._tensorboard_folder(),
            metrics=self._metrics if self._under_platform else None,
        )
        self._course = StepCourse(
            self._stepper,
            self._loss_finder,
            ResumeState(environment.checkpoint_config, self.failures),
            prepare=self._prepare,
            put_collections=self.export_collections,
        )
        self._course.outlet = self._outlet if writes else None
        self._start_clock(environment.profiler_config)
        if vitals != "off" and writes and not dry_run:
            self._course.vitals = self._start_vitals()
        if vitals != "off" and self.num_workers > 1 and not dry_run:
            self._watch_rank()
        self._watch_hangs(environment, is_wanted=vitals != "off" and not dry_run)
        if ring > 0:
            self._outlet.keep_last(ring, self._course.finish)
        if gradients_at == "optimizer":
            self._watch_optimizers()
        atexit.register(self.close)
        set_hook(self)
        if writes:
            begin_writing(self._output.location, self.flush)

    @classmethod
    def create_from_json_file(cls, json_file_path: str | None = None) -> "Hook":
        """From the file given, else from where the platform puts it. No file: FileNotFoundError."""
        environment = CaptureEnvironment.load()
        path = Path(json_file_path) if json_file_path else environment.hook_config
        return cls.create_from_configuration(read_configuration(path, environment))

    @classmethod
    def create_from_configuration(
        cls,
        given: HookConfiguration,
        *,
        gradients_at: GradientsAt = "backward",
        environment: CaptureEnvironment | None = None,
    ) -> "Hook":
        hook = cls(
            out_dir=given.out_dir,
            export_tensorboard=given.export_tensorboard,
            tensorboard_dir=given.tensorboard_dir,
            dry_run=given.dry_run,
            reduction_config=given.reduction_config,
            save_config=given.save_config,
            include_regex=list(given.include_regex) or None,
            include_collections=[collection.name for collection in given.collections],
            save_all=given.save_all,
            include_workers=given.include_workers,
            ring=given.ring,
            literal_names=given.literal_names,
            gradients_at=gradients_at,
            vitals=given.vitals,
            environment=environment,
        )
        for configured in given.collections:
            collection = hook.get_collection(configured.name)
            collection.include(configured.include_regex)
            collection.exclude(configured.exclude_regex)
            collection.save_config = configured.save_config
            collection.reduction_config = configured.reduction_config
            collection.save_histogram = configured.save_histogram
        return hook

    def register_module(self, module: nn.Module) -> None:
        """Watch a model: each of its forward passes is a step from here on."""
        if not isinstance(module, nn.Module):
            raise SMDebugError(f"{module!r} is not a torch.nn.Module; only those can be watched.")
        parts = {id(part) for part in module.modules()}
        if parts & self._registered:
            raise AssertionError(
                f"{type(module).__name__} or a part of it is registered already. "
                "Register each model once."
            )
        self._registered |= parts
        names = Names(module, literal=self._literal_names)
        watched = self._stepper.add_model(module, names)
        logger.info("Watching %s, which has %d parameters.", names.root, len(watched.parameters))
        logger.debug("They are %s.", ", ".join(name for name, _ in watched.parameters))
        if not watched.parameters:
            logger.info("%s has no parameters; only its activations can be saved.", names.root)
        if isinstance(names.module, torch.jit.ScriptModule):
            logger.info("%s is scripted; what its parts return cannot be seen.", names.root)
        if watched.has_flat_gradients:
            self._watch_optimizers()
        if self._course.vitals is not None:
            self._course.vitals.add_model(names)
        self._extend_module(module, names)
        begin = self._pre_hook if self.overrides("forward_pre_hook") else self._begin_step
        self._handles.append(RootTap(module, begin).install())
        if self._course.follows_training:
            self._handles.append(self._loss_finder.watch_output(module))

    register_hook = register_module

    def watches_part_of(self, module: nn.Module) -> bool:
        """Whether it, or something inside it, is registered."""
        return any(id(part) in self._registered for part in module.modules())

    def register_loss(self, loss_module: nn.Module) -> None:
        if not isinstance(loss_module, _Loss):
            raise AssertionError(
                f"{loss_module!r} is not one of torch.nn's loss modules. "
                "Save other losses with `record_tensor_value`."
            )
        if not self._stepper.has_loss(loss_module):
            self._stepper.add_loss(loss_module)
            self._extend_loss(loss_module)

    def follow_training(self, *, loss_modules: bool = False) -> None:
        """Find unregistered losses, and take modes from `model.training`, until `set_mode`.

        With `loss_modules` those of torch that the script calls are saved under their class.
        """
        self._course.follows_training = True
        self._loss_finder.install(loss_modules=loss_modules)
        for watched in self._stepper.models.values():
            self._handles.append(self._loss_finder.watch_output(watched.root))

    def begin(self, module: nn.Module, given: tuple[Any, ...] = ((), {})) -> None:
        """Start a step now, for a model registered while it is being called.

        `given` are its arguments and its keyword arguments.
        """
        self._begin_step(module, given)

    def note_loss(self, loss: Tensor) -> None:
        """The tensor of the current `backward`, for a hook created too late to see the call."""
        self._loss_finder.on_backward(loss)

    def note_part(self, module: nn.Module) -> None:
        """A module called inside a model; it may not be registered in it."""
        if self._course.vitals is not None:
            self._course.vitals.note_part(module)

    def note_early_evaluation(self, num_calls: int) -> None:
        """So many calls of a model in evaluation mode came before its training."""
        if self._course.vitals is not None:
            self._course.vitals.note_early_evaluation(num_calls)

    def note_onlooker(self, module: nn.Module) -> None:
        """A model that is called beside those in training, and not trained itself."""
        if self._course.vitals is not None:
            self._course.vitals.note_onlooker(module)

    @property
    def step(self) -> int:
        """The number of the last forward pass, from 0; -1 before the first."""
        return self._course.step

    @property
    def mode(self) -> ModeKeys:
        return self._course.mode

    @property
    def mode_steps(self) -> dict[ModeKeys, int]:
        return self._course.mode_steps

    @property
    def last_saved_step(self) -> int | None:
        return self._course.last_saved_step

    @last_saved_step.setter
    def last_saved_step(self, step: int | None) -> None:
        """Methods of subclasses set it, as smdebug's do."""
        self._course.last_saved_step = step

    @property
    def has_registered_module(self) -> bool:
        return bool(self._stepper.models)

    @property
    def has_registered_loss_module(self) -> bool:
        return bool(self._stepper.losses)

    def record_tensor_value(self, tensor_name: str, tensor_value: Tensor) -> None:
        """For losses of `torch.nn.functional`: saved as an output of `tensor_name`."""
        if not isinstance(tensor_value, Tensor):
            raise SMDebugTypeError(f"{tensor_name!r} is a {type(tensor_value)}, not a Tensor.")
        self._record_tensor_value(tensor_name, tensor_value)

    def save_scalar(
        self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None
    ) -> None:
        """Recorded at once, under the current step and mode, whatever the save interval.

        A value that is not a number, such as text, is not saved; that is reported, and training
        continues.
        """
        size = value.numel() if isinstance(value, Tensor) else getattr(value, "size", 1)
        if size != 1:
            raise SMDebugTypeError(f"scalar/{name} has {size} elements; a scalar has one.")
        self._save_scalar(f"scalar/{name}", value, sm_metric, timestamp)

    def save_tensor(
        self,
        tensor_name: str,
        tensor_value: Any,
        collections_to_write: str | list[str] = CollectionKeys.DEFAULT,
    ) -> None:
        """Saved raw, under exactly this name, if the step is one of the collections' steps."""
        self._save_tensor(tensor_name, tensor_value, flatten_names([collections_to_write]))

    def set_mode(self, mode: ModeKeys) -> None:
        if not isinstance(mode, ModeKeys):
            raise SMDebugValueError(
                f"{mode!r} is not a mode. Use modes.{', modes.'.join(ModeKeys.__members__)}."
            )
        self._course.follows_training = False
        self._course.switch_mode(mode)

    def get_collection(self, name: str, create: bool = True) -> Collection:
        return self.collection_manager.get(name, create=create)

    def get_collections(self) -> dict[str, Collection]:
        return self.collection_manager.get_collections()

    def add_collection(self, collection: Collection) -> None:
        if not isinstance(collection, Collection):
            raise SMDebugTypeError(f"{collection!r} is not a Collection.")
        self.collection_manager.add(collection)

    def close(self) -> None:
        """Write the rest and mark the end of the trial. Further calls do nothing."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        end_writing(self._output.location)
        self._close()
        atexit.unregister(self.close)
        if current_hook() is self:
            del_hook()

    @guarded
    def flush(self) -> None:
        """Wait until a trial that is opened now sees everything up to this moment.

        Not with a flight recorder, which holds its steps until something goes wrong.
        """
        self._course.flush()

    @guarded
    def dump(self, reason: str = "asked for") -> None:
        """Write out the flight recorder's steps."""
        self._course.finish()
        self._outlet.dump(reason)

    @guarded
    def export_collections(self) -> None:
        if self._stepper.plan is not None:
            self._stepper.plan.is_changed = False
        self._outlet.put_collections(self.collection_manager.to_json_dict())

    def has_default_hook_configuration(self) -> bool:
        return self.include_collections == [CollectionKeys.LOSSES] and not self._save_all

    def record_trace_events(self, *args: Any, **kwargs: Any) -> None:
        """For the profiler; here timing is sampled outside the script."""

    def should_save_dataloader_metrics(self, metrics_name: str) -> bool:
        return False

    def __reduce__(self) -> Any:
        """Models that hold a hook are copied and sent to workers without it."""
        return type(None), ()

    @guarded
    def _pre_hook(self, root: nn.Module, given: tuple[Any, ...]) -> None:
        self.forward_pre_hook(root, given[0])

    @guarded
    def _begin_step(self, root: nn.Module, given: tuple[Any, ...]) -> None:
        self._course.begin(root, given)

    @guarded
    def _start_clock(self, configuration: Path) -> None:
        self._course.clock = start_step_clock(configuration, self.rank)

    @guarded
    def _watch_hangs(self, environment: CaptureEnvironment, *, is_wanted: bool) -> None:
        if is_wanted:
            put, folder = self._output.put, self._output.location.local
            self._course.progress = start_watch(environment, put, folder)

    def _tensorboard_folder(self) -> Path | None:
        if not self.tensorboard_dir or not self._output.is_writer:
            return None
        folder = locate(self.tensorboard_dir, home=Settings.load().home).local
        if folder is None:
            problem = SMDebugValueError(
                f"Event files are written to folders, and {self.tensorboard_dir!r} is none. "
                "Give a folder of this machine as tensorboard_dir."
            )
            self.failures.report("tensorboard", problem)
        return folder

    def _start_vitals(self) -> Vitals:
        self.collection_manager.get(VITALS).include(f"^{VITALS}/")
        facts = AnatomyFacts(self.worker, self.num_workers)
        facts.texts.keeps_text = CaptureEnvironment.load().keeps_text
        vitals = Vitals(
            self.failures,
            facts,
            write=self._outlet.write,
            show=self._outlet.show_scalars,
            put_anatomy=self._outlet.put_anatomy,
        )
        vitals.install()
        return vitals

    def _watch_rank(self) -> None:
        """In every process of a group, whether it saves tensors or not."""
        figures = RankFigures(self.failures, self._stepper.models.values)
        figures.install()
        self._loss_finder.on_loss = figures.see_loss
        self._course.rank_figures = figures
        put = partial(self._output.put, rank_times_file(self.worker))
        more = figures.to_json
        self._course.rank_times = RankTimes(self.worker, self.num_workers, put, more)

    def _prepare(self) -> None:
        manager = self.collection_manager
        manager.num_workers = self.num_workers if self.include_workers == "all" else 1
        if self._save_all:
            manager.get(CollectionKeys.ALL).include(".*")
            self.include_collections = [*manager.get_collections()]
        manager.fill(self.save_config, self.reduction_config)
        self._stepper.prepare(manager, self.include_collections if self._saves_tensors else ())
        self.export_collections()

    def _watch_optimizers(self) -> None:
        if self._watches_optimizers or not self._output.is_writer:
            return
        self._watches_optimizers = True
        self._handles.append(register_optimizer_step_pre_hook(self._before_optimizer))
        self._handles.append(register_optimizer_step_post_hook(self._after_optimizer))

    def _before_optimizer(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not has_closure(args, kwargs):
            self._take_final_gradients()

    def _after_optimizer(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A closure, as Lightning passes it, runs forward and backward inside `step`."""
        if has_closure(args, kwargs):
            self._take_final_gradients()

    @guarded
    def _take_final_gradients(self) -> None:
        self._loss_finder.is_step_over = True
        self._stepper.take_final_gradients()

    @guarded
    def _record_tensor_value(self, name: str, value: Tensor) -> None:
        self._stepper.take_all(f"{name}_output", Origin.OTHER, [value])

    @guarded
    def _save_scalar(self, name: str, value: Any, sm_metric: bool, timestamp: float | None) -> None:
        number = _as_number(name, value)
        at = time.time() if timestamp is None else timestamp
        if sm_metric:
            self._metrics.add(name, self.mode.name, number, at, self._course.now()[1])
        self._course.add_scalar(name, number, at, is_apart=bool(timestamp))

    @guarded
    def _save_tensor(self, name: str, value: Any, collections: list[str]) -> None:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
        for collection in map(self.get_collection, collections):
            self._course.add_tensor(name, tensor, collection, self.save_config)

    @guarded
    def _close(self) -> None:
        self._loss_finder.remove()  # before the vitals, which wrapped the same functions first
        self._course.close()
        self._stepper.remove()
        for handle in self._handles:
            handle.remove()
        if self._stepper.plan is None:
            self.collection_manager.fill(self.save_config, self.reduction_config)
        self.export_collections()
        self._outlet.close(end_marker=self.rank == 0 and not self._under_platform)
        self._course.outlet = None
        self._output.release()


def get_hook(
    json_config_path: str | None = None, create_if_not_exists: bool = False
) -> Hook | None:
    """The process's hook, created from the configuration file on request if that exists.

    None if `USE_SMDEBUG` is false, even if there is one.
    """
    if not CaptureEnvironment.load().enabled:
        return None
    current = current_hook()
    if current is not None or not create_if_not_exists:
        return current
    try:
        return Hook.create_from_json_file(json_config_path)
    except FileNotFoundError:
        return None


def _as_number(name: str, value: Any) -> float:
    """Not all that `float` accepts: numeric text is not a number."""
    plain = value.item() if hasattr(value, "item") else value
    if not isinstance(plain, Number) or isinstance(plain, complex):
        raise SMDebugTypeError(
            f"{name} was given {value!r}, which is not a number, and not saved. "
            "Give a number, or a tensor or array of one."
        )
    return float(plain)  # type: ignore[arg-type]  # which real numbers, and Decimal, all take


def _limits(environment: CaptureEnvironment) -> WriterLimits:
    age = environment.age_seconds
    if age is None:
        return WriterLimits()
    is_awaited = age < _REPORTED_SECONDS
    return WriterLimits(age_seconds=age, patient_seconds=0.0 if is_awaited else _PATIENT_SECONDS)


def _included(
    manager: CollectionManager, given: Iterable[Any] | None, include_regex: list[str] | str | None
) -> list[str]:
    names = dict.fromkeys(flatten_names(given))
    if include_regex:
        manager.get(CollectionKeys.DEFAULT).include(include_regex)
        names[CollectionKeys.DEFAULT] = None
    names[CollectionKeys.LOSSES] = None
    for name in names:
        manager.get(name)
    return [*names]
