"""The seam to CUDA on a real device: copies, streams, events, and nothing left behind."""

import numpy as np

from edge_runtime.perception.backends.tensorrt._cuda import Cuda
from hil.gpu.bench import MIB, Bench, Failed, growth, resident_bytes

_ROUNDS = 20


def check_device(bench: Bench) -> str:
    """Opened and closed again and again; bytes go to the GPU and come back."""
    free, resident = [], []
    for _ in range(_ROUNDS):
        with bench.device() as cuda:
            major, minor = cuda.compute_capability
            bench.values.update(
                {
                    "device": cuda.device_name,
                    "compute_capability": f"{major}.{minor}",
                    "library": cuda.library,
                    "memory_mib": cuda.memory()[1] // MIB,
                }
            )
            _there_and_back(cuda)
            bench.on_gpu = True
            free.append(cuda.memory()[0])
        resident.append(resident_bytes())
    bench.values["rounds"] = _ROUNDS
    bench.values["host_growth_mib"] = round(growth(resident) / MIB, 2)
    bench.values["device_growth_mib"] = round(-growth(free) / MIB, 2)
    return f"opened and closed {_ROUNDS} times, and a megabyte went there and back each time"


def _there_and_back(cuda: Cuda) -> None:
    nbytes = 1 << 20
    address, stream, event = cuda.allocate(nbytes), cuda.create_stream(), cuda.create_event()
    sent, returned = cuda.allocate_host(nbytes), cuda.allocate_host(nbytes)
    try:
        sent[:] = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
        returned[:] = 0
        cuda.copy_in(address, sent, stream)
        cuda.copy_out(returned, address, stream)
        cuda.record(event, stream)
        cuda.synchronize_event(event)
        same = bool((sent == returned).all())
        cuda.fill(address, 0xA5, nbytes, stream)
        cuda.copy_out(returned, address, stream)
        cuda.synchronize(stream)
        filled = bool((returned == 0xA5).all())
    finally:
        cuda.destroy_event(event)
        cuda.destroy_stream(stream)
        cuda.free_host(sent)
        cuda.free_host(returned)
        cuda.free(address)
    if not (same and filled):
        raise Failed("bytes that went to the GPU and back came back changed")
