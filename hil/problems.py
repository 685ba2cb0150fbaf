"""What can be wrong with a rig, as opposed to what is measured on it."""

from edge_runtime.errors import ConfigError, EdgeRuntimeError


class BadRig(ConfigError):
    """The rig's file cannot be used; each line of the text is one problem with its place."""


class RigError(EdgeRuntimeError):
    """A part of the rig does not do what it is there for: the rig is sick, whatever the device is."""


class DeviceError(EdgeRuntimeError):
    """The device under test does not answer, or refused; the rig may be well."""


class BadReport(EdgeRuntimeError):
    """A file is no report, or nobody who is known has signed it."""
