"""The garbage collector of a process that handles events: it makes many objects, and hardly a cycle."""

import gc


def collect_rarely() -> None:
    """Called once everything is imported and open.

    What is there by then lives as long as the process, so the collector need not walk through it again. With
    Python's own thresholds it runs at each put of a hundred events, which makes 700 tuples, and took a fifth of the
    time of ingest. They are no higher because paho's matcher of topics leaves a cycle of six objects, 0.9 KB, for
    each message: a threshold of 100,000 let 16,000 of them pile up, which looked like a leak of 0.2 MiB a minute.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
