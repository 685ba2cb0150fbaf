"""One HTML page for people: what was expected and measured, the states over time, and every curve."""

from collections.abc import Sequence
from html import escape

from sim.chart import LEFT, RIGHT, WIDTH, Line, Panel, picture
from sim.report.run import Run, machine_facts
from sim.scenario.measures import limits_text
from sim.scenario.trace import Trace

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:920px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.25em .6em;text-align:left}"
    "td,th{border-bottom:1px solid #ddd}"
    ".met{color:#16682c}.not{color:#b00020;font-weight:600}h2{margin-top:2.2em;border-top:1px solid #ccc;"
    "padding-top:.8em}svg{max-width:100%;height:auto}"
)
_COLOURS = {
    "INIT": "#c9c9c9",
    "STANDBY": "#9fb6cd",
    "NOMINAL": "#58a868",
    "DEGRADED": "#e5c14f",
    "STOPPED": "#e08a3c",
    "SAFE": "#c2403a",
    "RECOVERY": "#8a6fb0",
    "LOCKOUT": "#5b1a18",
}
_NAMES = {
    "queue": "Events that wait for a receipt",
    "speed": "Speed of the body",
    "commands": "Commands that passed the motion gate",
    "die": "Temperature of the die",
    "clock": "Clock of the processor",
    "charge": "Battery",
}
_BAND, _LINE, _LETTER = 30, 27, 6.2
_MOST_POINTS = 1200


def page(runs: Sequence[Run]) -> str:
    """The document; it needs nothing from elsewhere."""
    passed = sum(run.passed for run in runs)
    facts = ", ".join(f"{name} {value}" for name, value in machine_facts().items())
    rows = "".join(
        f"<tr><td><a href='#{_anchor(run)}'>{escape(run.scenario.name)}</a></td><td>{run.rig}</td>"
        f"<td>{escape(', '.join(run.without)) or '&ndash;'}</td><td>{_verdict(run)}</td>"
        f"<td>{run.wall_s:.1f} s</td></tr>"
        for run in runs
    )
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Scenarios</title><style>{_STYLE}</style>"
        f"<h1>Scenarios: {passed} of {len(runs)} passed</h1><p>{escape(facts)}</p>"
        f"<table><tr><th>scenario</th><th>rig</th><th>without</th><th>verdict</th><th>took</th></tr>{rows}</table>"
        f"{''.join(map(_section, runs))}</html>\n"
    )


def _anchor(run: Run) -> str:
    return escape(f"{run.rig}-{run.scenario.name}{''.join(f'-{one}' for one in run.without)}")


def _verdict(run: Run) -> str:
    return "<span class='met'>passed</span>" if run.passed else "<span class='not'>failed</span>"


def _section(run: Run) -> str:
    rows = "".join(
        f"<tr><td>{escape(finding.text.split(':')[0])}</td><td>{escape(limits_text(finding.expected))}</td>"
        f"<td class='{'met' if finding.met else 'not'}'>{escape(finding.measured_text)}</td></tr>"
        for finding in run.findings
    )
    trace = run.trace or Trace()
    log = "".join(f"<tr><td>{at:.2f} s</td><td>{escape(text)}</td></tr>" for at, text in trace.log[:60])
    broke = f"<p class='not'>{escape(run.broke)}</p>" if run.broke else ""
    return (
        f"<h2 id='{_anchor(run)}'>{escape(run.scenario.title)} ({run.rig})</h2>"
        f"<p>{escape(run.scenario.about)}</p>{broke}"
        f"<table><tr><th>expected</th><th>limits</th><th>measured</th></tr>{rows}</table>"
        f"{_states(run, trace)}{_curves(trace)}<table>{log}</table>"
    )


def _states(run: Run, trace: Trace) -> str:
    """The states as a band over time, with the faults below it."""
    if not trace.changes:
        return ""
    span = WIDTH - LEFT - RIGHT
    scale = span / run.scenario.duration
    height = 26 + _BAND + _LINE * len(trace.windows) + 26
    parts = [f"<text x='{LEFT}' y='16' font-weight='bold'>State of the guard, and faults</text>"]
    ends = [one.at for one in trace.changes[1:]] + [run.scenario.duration]
    for change, end in zip(trace.changes, ends, strict=True):
        x, wide = LEFT + change.at * scale, max(1.0, (end - change.at) * scale)
        parts.append(
            f"<rect x='{x:.1f}' y='24' width='{wide:.1f}' height='{_BAND}' fill='{_COLOURS[change.state]}'>"
            f"<title>{change.state} from {change.at:.2f} s: {escape(', '.join(change.causes))}</title></rect>"
        )
        if wide > 8 * len(change.state):
            parts.append(f"<text x='{x + 4:.1f}' y='{24 + _BAND - 10}' fill='white'>{change.state}</text>")
    for number, window in enumerate(trace.windows):
        y, x = 24 + _BAND + _LINE * number + 5, LEFT + window.begins * scale
        wide = max(2.0, (window.ends - window.begins) * scale)
        parts.append(f"<rect x='{x:.1f}' y='{y}' width='{wide:.1f}' height='5' fill='#555'/>")
        text = f"{window.name}: {window.text}"
        at, anchor = (x, "start") if x + _LETTER * len(text) < WIDTH else (WIDTH - RIGHT, "end")
        parts.append(f"<text x='{at:.1f}' y='{y + 17}' text-anchor='{anchor}'>{escape(text)}</text>")
    base = height - 8
    for share in range(5):
        at = run.scenario.duration * share / 4
        parts.append(
            f"<text x='{LEFT + span * share / 4:.1f}' y='{base}' text-anchor='middle'>{at:g} s</text>"
        )
    return (
        f"<svg viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' font-family='sans-serif' "
        f"font-size='11'>{''.join(parts)}</svg>"
    )


def _curves(trace: Trace) -> str:
    panels = []
    for name, series in trace.series.items():
        if name not in _NAMES or not any(value for _, value in series.points):
            continue  # a curve that is zero all the time tells nothing
        points = series.points
        every = max(1, len(points) // _MOST_POINTS)
        shown = [*points[::every], points[-1]]
        panels.append(Panel(_NAMES[name], "seconds", series.unit, [Line("", shown, "#2a5d9f")], low=None))
    return picture(panels) if panels else ""
