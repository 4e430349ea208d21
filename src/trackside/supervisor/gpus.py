"""The GPUs of this machine as NVML shows them; none, and no error, without driver or library."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

# Software power cap, hardware slowdown, software and hardware thermal slowdown, power brake. Idle
# and clocks requested by a user are also among the reasons, but are not throttling.
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True, slots=True)
class Gpu:
    """None if the card, or its MIG mode, does not report it."""

    utilization_percent: float | None
    memory_used_bytes: float | None
    memory_total_bytes: float | None
    temperature_celsius: float | None
    power_watts: float | None
    clock_mhz: float | None
    memory_clock_mhz: float | None
    is_throttled: float | None

    @property
    def memory_percent(self) -> float | None:
        if self.memory_used_bytes is None or not self.memory_total_bytes:
            return None
        return 100 * self.memory_used_bytes / self.memory_total_bytes


class Gpus:
    def __init__(self, nvml: Any, handles: list[Any]) -> None:
        self._nvml = nvml
        self._handles = handles

    @classmethod
    def found(cls) -> "Gpus":
        try:
            import pynvml  # of nvidia-ml-py; the package named pynvml is another, unmaintained one
        except ImportError:
            return cls(None, [])
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        except pynvml.NVMLError as error:
            logger.info("no GPU figures: %s", error)
            return cls(None, [])
        return cls(pynvml, handles)

    def read(self) -> tuple[Gpu, ...]:
        return tuple(self._look(handle) for handle in self._handles)

    def close(self) -> None:
        if self._nvml is not None:
            self._ask(self._nvml.nvmlShutdown)

    def _look(self, handle: Any) -> Gpu:
        nvml = self._nvml
        use = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        reasons = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
        return Gpu(
            utilization_percent=use and float(use.gpu),
            memory_used_bytes=memory and float(memory.used),
            memory_total_bytes=memory and float(memory.total),
            temperature_celsius=self._ask(
                nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
            ),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            is_throttled=None if reasons is None else float(bool(reasons & _THROTTLED)),
        )

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None  # not supported, or the card has fallen off the bus
