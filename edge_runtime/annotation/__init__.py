"""What a person sees: frames with boxes, zones and events drawn on, as a video and as a contact sheet."""

from edge_runtime.annotation.captions import event_caption
from edge_runtime.annotation.contact_sheet import ContactSheet
from edge_runtime.annotation.draw import Annotator
from edge_runtime.annotation.recorder import Recorder, RecorderStatus
from edge_runtime.annotation.video import VideoWriter

__all__ = ["Annotator", "ContactSheet", "Recorder", "RecorderStatus", "VideoWriter", "event_caption"]
