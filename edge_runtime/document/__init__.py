"""Documents that people write: YAML text as plain data with lines, and what is wrong with it in sentences.

Both programs read them here, so that what somebody signed means the same on the server and on a device.
"""

from edge_runtime.document.problem import Location, Problem, format_location, visible
from edge_runtime.document.yaml_text import MAX_NODES, Document, Unreadable, read_document

__all__ = [
    "MAX_NODES",
    "Document",
    "Location",
    "Problem",
    "Unreadable",
    "format_location",
    "read_document",
    "visible",
]
