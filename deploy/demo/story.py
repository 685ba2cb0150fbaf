"""The demo from its first line to its balance."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from deploy.demo.balance import Balance, balance_screen, weigh
from deploy.demo.cut import Cut, Moment, Pull, plan
from deploy.demo.outlook import hint, length
from deploy.demo.screen import Screen
from deploy.demo.signals import Signals
from deploy.demo.site import POLICY, Site
from deploy.demo.watch import Queue, View, Watcher, count_lines
from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.durable import write_file
from edge_runtime.monitor.flight import FLIGHT, Damage, read_flight
from edge_runtime.state import StateDirectory
from sim.ports import free_port
from sim.road import ask, command

PROGRAMS = Path(sys.executable).parent
"""Where the commands of this environment lie."""

_LOOK_S = 0.25
_END_S = 30.0


def tell(console: Console, configuration: Path, out: Path, max_frames: int | None, signals: Signals) -> int:
    """Run the whole road.

    Args:
        console: for everything that a person sees.
        configuration: of the device, without its way out, which is added.
        out: folder of the results.
        max_frames: of the camera.
        signals: a first one ends the device's run, a second one everything.

    Returns:
        0 where the run succeeded and the balance holds; the run's exit code where it failed; else 1.

    Raises:
        EdgeRuntimeError: the configuration cannot be used, or a part of the road did not start.
    """
    loaded = load_config(configuration)  # before anything is started: its errors are those of `config check`

    def say(what: str, text: str) -> None:
        console.print(Text.assemble((f"{what:<8}", "dim"), text), soft_wrap=True)
        console.file.flush()

    say("road", "a fleet server, a broker and a device, all on this machine")
    with Site(out / "road", say) as site:
        try:
            with console.status(
                "an authority, a server, a broker, an enrolment: each is a process of its own"
            ):
                site.build(configuration, loaded.config.device.name)
            say(
                "policy",
                f"{_short(POLICY)}: {hint(loaded, site.state.path) or 'three rules may leave, all else is held'}",
            )
            return _Story(console, site, loaded, out, max_frames, signals=signals).run()
        finally:
            signals.ignore()


class _Story:
    """One run of the device, watched; everything around it stands."""

    def __init__(
        self,
        console: Console,
        site: Site,
        loaded: LoadedConfig,
        out: Path,
        max_frames: int | None,
        *,
        signals: Signals,
    ) -> None:
        self._console, self._site, self._out, self._signals = console, site, out, signals
        self._clock = SystemClock()
        self._max_frames = max_frames
        total = length(loaded, max_frames)
        advice = hint(loaded, site.state.path)
        self._cut = Cut(None if advice else plan(total))
        self._view = View(site.device.name, site.server.url.removeprefix("https://"), total, advice)
        self._began_s = self._now_s()
        self._pause = threading.Event()

    def run(self) -> int:
        """From the start of the device to its balance; the exit code."""
        site, port = self._site, free_port()
        watcher = Watcher(self._view, f"http://127.0.0.1:{port}/metrics", site.outbox, site.client)
        said = site.folder / "summary.txt"
        with said.open("w+", encoding="utf-8") as summary, site.log.open("w+", encoding="utf-8") as log:
            device = subprocess.Popen(  # noqa: S603 - our own command
                self._command(port),
                stdout=summary,
                stderr=log,
                env=os.environ | {"COLUMNS": str(self._console.width)},
                start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on
            )
            try:
                with self._signals.collected(), Screen(self._console, self._view, self._tick) as screen:
                    self._follow(device, watcher, screen)
                    if device.returncode == 0:
                        self._settle(watcher, screen)
            finally:
                if device.poll() is None:
                    self._signals.ignore()
                    _end(device)
                watcher.close()
        self._console.print()
        self._console.print(said.read_text(encoding="utf-8").rstrip(), markup=False, soft_wrap=True)
        if device.returncode:
            return self._failed(device.returncode)
        return self._close_books()

    def _failed(self, code: int) -> int:
        """What a run that failed said; its exit code."""
        lines = self._site.log.read_text(encoding="utf-8").splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
        told = lines[starts[-1] :] if starts else [f"error: the run ended with {code}: see {self._site.log}"]
        sys.stderr.write("\n".join(told) + "\n")
        return code if code > 0 else 1

    def _command(self, port: int) -> list[str]:
        out, site = self._out, self._site
        arguments = ["run", str(site.device.configuration), "--state", str(site.state.path)]
        arguments += ["--events", str(out / "events.ndjson"), "--annotate", str(out / "annotated.mp4")]
        arguments += [
            "--contact-sheet",
            str(out / "contact_sheet.png"),
            "--summary",
            str(out / "summary.json"),
        ]
        arguments += ["--metrics", f"127.0.0.1:{port}"]
        if self._max_frames:
            arguments += ["--max-frames", str(self._max_frames)]
        return command("edge-runtime", *arguments)

    def _follow(self, device: "subprocess.Popen[Any]", watcher: Watcher, screen: Screen) -> None:
        """Watch until the device's run has ended, pull the cable and put it back."""
        passed_on = False
        while device.poll() is None:
            if self._signals.asked and not passed_on:
                passed_on = True
                device.send_signal(signal.SIGINT)
            watcher.look()
            self._step(ended=self._view.state in ("ended", "failed") or passed_on)
            screen.update()
            self._pause.wait(_LOOK_S)
        self._view.state = "ended"
        self._step(ended=True)

    def _step(self, *, ended: bool) -> None:
        view, queue, cable = self._view, self._view.queue, self._site.device.cable
        self._tick()
        pull = self._cut.step(
            Moment(
                now_s=self._now_s(),
                frames=view.frames,
                arrived=len(view.arrivals),
                queued=None if queue is None else queue.queued,
                bytes_down=cable.bytes_down,
                ended=ended,
            )
        )
        if pull is Pull.CUT:
            self._site.cut()
        elif pull is Pull.HEAL:
            self._site.heal()
        view.link = self._cut.link

    def _settle(self, watcher: Watcher, screen: Screen) -> None:
        """What the run left in the queue is delivered by a device that comes back without cameras."""
        outbox = self._outbox()
        if outbox["queued"] or outbox["evidence"]["due"]:
            self._site.drain(lambda seconds: self._between(seconds, watcher, screen))
            outbox = self._outbox()
        crops = outbox["evidence"]
        self._view.queue = Queue(
            outbox["queued"], outbox["delivered"], outbox["held"], crops["due"], crops["uploaded"]
        )
        watcher.look_at_server()
        self._step(ended=True)
        screen.update()

    def _between(self, seconds: float, watcher: Watcher, screen: Screen) -> None:
        watcher.look_at_queue()
        watcher.look_at_server()
        self._step(ended=True)
        screen.update()
        self._pause.wait(seconds)

    def _outbox(self) -> Any:
        return json.loads(
            ask("edge-runtime", "outbox", "status", "--state", str(self._site.state.path), "--json")
        )

    def _close_books(self) -> int:
        """Both sides after everything has ended; the exit code."""
        site, outbox = self._site, self._outbox()
        cables = (site.device.cable, site.uploads)
        counted = {
            "seen": count_lines(self._out / "events.ndjson"),
            "own": _own_events(site.state),
            "crops_named": len({arrival.crop for arrival in self._view.arrivals if arrival.crop}),
            "bytes_up": sum(cable.bytes_up for cable in cables),
            "bytes_down": sum(cable.bytes_down for cable in cables),
            "connections": cables[0].connections,
        }
        balance = weigh(site.device.name, outbox, site.client.get("/v1/health"), counted)
        write_file(
            self._out / "balance.json",
            json.dumps(balance.record() | self._cut_record(), indent=2).encode() + b"\n",
        )
        self._console.print()
        self._console.print(balance_screen(balance))
        self._last_words(balance)
        return 0 if balance.holds else 1

    def _last_words(self, balance: Balance) -> None:
        """What the cut was, and where everything lies."""
        device, data = _short(self._site.state.path), _short(self._site.server.data)
        fleet, edge = _short(PROGRAMS / "fleet"), _short(PROGRAMS / "edge-runtime")
        lines = [("cut" if number == 0 else "", words) for number, words in enumerate(self._cut_words())]
        if balance.aside["held"] > balance.own:
            lines.append(("held", f"{edge} gate list --state {device}"))
        lines += [
            ("look", f"{fleet} events list --data {data}"),
            ("", f"{edge} outbox status --state {device}"),
            ("files", f"{_short(self._out)}: annotated.mp4, contact_sheet.png, events.ndjson"),
        ]
        for name, text in lines:
            style = "yellow" if name == "cut" and self._cut.missed else "default"
            self._console.print(Text.assemble((f"{name:<8}", "dim"), (text, style)), soft_wrap=True)

    def _cut_record(self) -> dict[str, float | None]:
        cut = self._cut
        out_s = None if cut.cut_s is None or cut.healed_s is None else cut.healed_s - cut.cut_s
        caught_s = None if cut.healed_s is None or cut.caught_up_s is None else cut.caught_up_s - cut.healed_s
        return {"cut_s": out_s, "caught_up_s": caught_s}

    def _cut_words(self) -> list[str]:
        cut = self._cut
        if cut.missed:
            return ["left out: the run was over before it could come"]
        if cut.cut_s is None or cut.healed_s is None:
            return ["none: nothing of this camera may leave, so there was nothing to cut"]
        out = f"the cable was out for {cut.healed_s - cut.cut_s:.1f} s"
        if not cut.piled:
            return [f"{out}, and nothing happened meanwhile"]
        lines = [f"{out}, {cut.piled} event{'s' * (cut.piled > 1)} waited"]
        if cut.caught_up_s is not None:
            lines.append(f"all were at the server {cut.caught_up_s - cut.healed_s:.1f} s after it was back")
        return lines

    def _tick(self) -> None:
        view, now_s = self._view, self._now_s()
        cable = self._site.device.cable
        view.bytes_up, view.bytes_down = cable.bytes_up, cable.bytes_down
        if view.state != "ended":
            view.seconds = now_s - self._began_s
        since = self._cut.cut_s if self._cut.healed_s is None else self._cut.healed_s
        view.link_s = 0.0 if since is None else now_s - since

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / NS_PER_S


def _end(device: "subprocess.Popen[Any]") -> None:
    """End the device's run, with its outbox and its uplink."""
    device.send_signal(signal.SIGTERM)
    try:
        device.wait(_END_S)
    except subprocess.TimeoutExpired:
        device.kill()
        device.wait()


def _short(path: Path) -> str:
    """Relative to here where it lies below."""
    full, here = path.absolute(), Path.cwd()
    return str(full.relative_to(here)) if full.is_relative_to(here) else str(full)


def _own_events(state: StateDirectory) -> int:
    """Changes of the guard's state of which the device made an event, by its flight recorder."""
    records = read_flight(state.guard / FLIGHT, Damage())
    return sum(record.kind == "change" and "event" in record.fields for record in records)
