"""A model exchanged a thousand times: neither the GPU's memory nor the process may grow."""

import sys
from functools import partial

import numpy as np

from edge_runtime.perception.backends.tensorrt import TensorRtBackend
from edge_runtime.qualification.subject import Subject
from hil.gpu.bench import MIB, Bench, Failed, growth, pictures, resident_bytes

_DEVICE_LIMIT = 4 * MIB
_HOST_LIMIT = 16 * MIB
"""Over all swaps: a leak of 16 KiB a swap is found."""


def check_swaps(bench: Bench) -> str:
    """The new model is loaded and asked before the old one is closed, as in an update."""
    free, resident = [], []
    # The device stays open here, so that each swap does not make the context anew, and its memory can be read.
    with bench.device() as cuda:
        with bench.tensorrt() as (model, report):
            stored = bench.source.store.verify(report.key)
            tensor, _ = Subject(model.package, model.backend).prepare(pictures()[0])
            feeds = model.feeds(np.ascontiguousarray(tensor), 1)
            spec = model.manifest.input
        if stored is None:
            raise Failed("the engine that was just opened is not in the store")
        load = partial(
            TensorRtBackend, stored.engine, model="swap", input_spec=spec, open_device=bench.open_device
        )
        running = load()
        try:
            expected = running.infer(feeds, 60.0)
            for swap in range(bench.swaps):
                coming = load()
                try:
                    outputs = coming.infer(feeds, 60.0)
                except BaseException:
                    coming.close()
                    raise
                running.close()
                running = coming
                if not all(
                    np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(outputs, expected, strict=True)
                ):
                    raise Failed(f"after {swap + 1} swaps the model answers otherwise")
                free.append(cuda.memory()[0])
                resident.append(resident_bytes())
                if swap % 100 == 99:
                    sys.stderr.write(f"{swap + 1} swaps\n")
        finally:
            running.close()
    device, host = -growth(free), growth(resident)
    bench.values.update(
        {
            "swaps": len(free),
            "device_growth_mib": round(device / MIB, 2),
            "host_growth_mib": round(host / MIB, 2),
        }
    )
    if device > _DEVICE_LIMIT or host > _HOST_LIMIT:
        raise Failed(
            f"over {len(free)} swaps the GPU's memory grew by {device / MIB:.1f} MiB "
            f"and the process by {host / MIB:.1f} MiB"
        )
    return f"{len(free)} swaps, and neither the GPU's memory nor the process grew"
