"""An RTSP camera on loopback: GStreamer's server playing a clip. Run by the system's Python, never imported.

    /usr/bin/python3 rtsp_server.py CLIP PORT [USER PASSWORD]

Prints `ready` when it listens. Every client after a pause of the media sees the clip from its beginning.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 - the versions must be chosen first


def main(clip: str, port: str, *user: str) -> None:
    Gst.init(None)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(
        f'( filesrc location="{clip}" ! decodebin ! videoconvert ! x264enc tune=zerolatency '
        "speed-preset=ultrafast key-int-max=10 ! rtph264pay name=pay0 pt=96 )"
    )
    factory.set_shared(True)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    if user:
        auth = GstRtspServer.RTSPAuth()
        token = GstRtspServer.RTSPToken()
        token.set_string("media.factory.role", "viewer")
        auth.add_basic(GstRtspServer.RTSPAuth.make_basic(*user), token)
        server.set_auth(auth)
        factory.add_role_from_structure(
            Gst.Structure.from_string("viewer, media.factory.access=true, media.factory.construct=true")[0]
        )
    server.get_mount_points().add_factory("/camera", factory)
    if server.attach(None) == 0:
        sys.exit(f"port {port} is taken")
    print("ready", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
