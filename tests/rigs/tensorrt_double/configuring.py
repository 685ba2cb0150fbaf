"""Profiles, timing cache and configuration of a build in the double."""

from typing import Any, Final

from tests.rigs.tensorrt_double.plan import first_problem
from tests.rigs.tensorrt_double.stage import Stage

TIMING_MAGIC: Final = b"ftrttiming1\n"


class ProfileAct:
    """`IOptimizationProfile`."""

    settable = ("extra_memory_target",)

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.extra_memory_target = 1.0
        self.shapes: dict[str, tuple[tuple[int, ...], ...]] = {}

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002 - TensorRT's names
        low, best, high = tuple(min), tuple(opt), tuple(max)
        if (
            not len(low) == len(best) == len(high)
            or first_problem(best, low, high)
            or any(d < 0 for d in low)
        ):
            raise ValueError("Shape provided for min is inconsistent with other shapes.")
        self.shapes[input] = (low, best, high)

    def get_shape(self, input: str) -> list[Any]:  # noqa: A002
        return [self._stage.classes["Dims"](shape) for shape in self.shapes.get(input, ())]


class TimingCacheAct:
    """`ITimingCache`: which models were timed, for which release and device."""

    def __init__(self, stage: Stage, entries: set[str]) -> None:
        self._stage = stage
        self.entries = entries

    @classmethod
    def read(cls, stage: Stage, data: bytes) -> "TimingCacheAct | None":
        if not data:
            return cls(stage, set())
        head = cls._head(stage)
        if not data.startswith(head):
            return None
        return cls(stage, set(data[len(head) :].decode().split()))

    @staticmethod
    def _head(stage: Stage) -> bytes:
        return TIMING_MAGIC + f"{stage.version} {stage.device.gpu.name}\n".encode()

    def serialize(self) -> Any:
        return self._stage.classes["IHostMemory"](
            self._head(self._stage) + "\n".join(sorted(self.entries)).encode()
        )

    def combine(self, input_cache: Any, ignore_mismatch: bool) -> bool:
        self.entries |= input_cache._act.entries
        return True

    def reset(self) -> bool:
        self.entries = set()
        return True


class ConfigAct:
    """`IBuilderConfig`."""

    settable = (
        "progress_monitor",
        "builder_optimization_level",
        "max_aux_streams",
        "profiling_verbosity",
        "hardware_compatibility_level",
        "avg_timing_iterations",
        "engine_capability",
        "flags",
        "profile_stream",
    )

    def __init__(self, stage: Stage, logger: Any) -> None:
        self._stage = stage
        self._logger = logger
        self.progress_monitor: Any = None
        self._level = 3
        self.max_aux_streams = -1
        self.avg_timing_iterations = 1
        self.profile_stream = 0
        self.profiling_verbosity = stage.member("ProfilingVerbosity", "LAYER_NAMES_ONLY")
        self.hardware_compatibility_level = stage.member("HardwareCompatibilityLevel", "NONE")
        self.engine_capability = stage.member("EngineCapability", "STANDARD")
        self.flags = 1 << int(stage.member("BuilderFlag", "TF32"))
        self.profiles: list[ProfileAct] = []
        self.cache: TimingCacheAct | None = None
        self.pools: dict[str, int] = dict.fromkeys(stage.classes["MemoryPoolType"].__members__, 0)
        self.pools["WORKSPACE"] = stage.device.gpu.memory_bytes

    @property
    def builder_optimization_level(self) -> int:
        return self._level

    @builder_optimization_level.setter
    def builder_optimization_level(self, value: int) -> None:
        if not 0 <= value <= 5:
            self._stage.log(self._logger, "ERROR", f"builder optimization level {value} is not supported")
            return
        self._level = value

    @property
    def num_optimization_profiles(self) -> int:
        return len(self.profiles)

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        self.pools[pool.name] = int(pool_size)

    def get_memory_pool_limit(self, pool: Any) -> int:
        return self.pools[pool.name]

    def set_flag(self, flag: Any) -> None:
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: Any) -> None:
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: Any) -> bool:
        return bool(self.flags >> int(flag) & 1)

    def set_preview_feature(self, feature: Any, enable: bool) -> None:
        """Accepted."""

    def add_optimization_profile(self, profile: Any) -> int:
        self.profiles.append(profile._act)
        return len(self.profiles) - 1

    def create_timing_cache(self, serialized_timing_cache: Any) -> Any:
        made = TimingCacheAct.read(self._stage, bytes(serialized_timing_cache))
        if made is None:
            self._stage.log(self._logger, "WARNING", "the timing cache was made by another version or device")
            return None
        return self._stage.make("ITimingCache", made)

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        self.cache = cache._act
        return True

    def get_timing_cache(self) -> Any:
        return self._stage.make("ITimingCache", self.cache) if self.cache is not None else None

    def flag_names(self) -> tuple[str, ...]:
        members = self._stage.classes["BuilderFlag"].__members__
        return tuple(sorted(name for name, flag in members.items() if self.flags >> int(flag) & 1))
