"""An event in one short line, as a person would say it; for banners, contact sheets and the live view."""

from edge_runtime.protocol import EventRecord, EventState


def event_caption(event: EventRecord) -> str:
    """For example `2.6 s head_position leave face #1` or `7.1 s no_driver started`."""
    words = [f"{event.at.media_s:.1f} s", event.rule]
    if event.direction:
        words.append(event.direction.replace("_", " "))
    elif event.state is EventState.STARTED or not event.duration_s:
        words.append(event.state.value)
    else:
        words.append(f"{event.state.value} after {event.duration_s:.1f} s")
    if event.label:
        words.append(event.label)
    if event.track is not None:
        words.append(f"#{event.track}")
    if event.count is not None and event.count > 1:
        words.append(f"x{event.count}")
    if event.late:
        words.append("(late)")
    return " ".join(words)
