"""How a report looks. The colours are those of Okabe and Ito, which the colour-blind can tell apart."""

from __future__ import annotations

_LIGHT = """
  --paper: #ffffff; --panel: #f6f7f9; --ink: #1d2329; --faint: #5d6873; --grid: #e3e7eb; --edge: #d5dbe1;
  --blue: #0072b2; --sky: #56b4e9; --orange: #e69f00; --red: #d55e00; --green: #009e73; --pink: #cc79a7;
  --setup: #a9c6da; --grey: #9aa5b1; --yellow: #d8c51d; --dark: #5b6570;
"""
_DARK = """
  --paper: #14181d; --panel: #1c2229; --ink: #e8ecf0; --faint: #a3adb8; --grid: #2c343d; --edge: #37414b;
  --blue: #4aa8e0; --sky: #8fd0f7; --orange: #f0b429; --red: #ff7f3f; --green: #2fc79b; --pink: #e39cc4;
  --setup: #36566b; --grey: #76828e; --yellow: #f0e442; --dark: #98a3af;
"""

STYLE = (
    ":root { color-scheme: light dark;"
    + _LIGHT
    + "}\n@media screen and (prefers-color-scheme: dark) { :root {"
    + _DARK
    + """} }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 28px 24px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 0; }
p { margin: 0; }
.status { display: inline-block; font-size: 13px; font-weight: 600; padding: 2px 10px; border-radius: 12px;
  border: 1px solid currentColor; vertical-align: 4px; margin-left: 8px; color: var(--faint); }
.status-done { color: var(--green); } .status-failed, .status-interrupted { color: var(--red); }
.status-running, .status-finishing { color: var(--blue); }
pre.command { background: var(--panel); border: 1px solid var(--edge); border-radius: 8px; padding: 12px 14px;
  margin: 14px 0 8px; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 14px;
  max-height: 16em; overflow: auto; }
pre, code, td.error { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.faint, .caption { color: var(--faint); font-size: 13.5px; overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 12px; margin: 20px 0; padding: 0; }
.tile { background: var(--panel); border: 1px solid var(--edge); border-radius: 10px; padding: 12px 14px; }
.tile dt { color: var(--faint); font-size: 13px; }
.tile dd { margin: 0; font-size: 24px; font-weight: 650; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tile .more { display: block; color: var(--faint); font-size: 13px; font-weight: 400; line-height: 1.35; }
section, figure { margin: 26px 0 0; }
figure { min-width: 0; }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 28px; }
.pair figure { display: flex; flex-direction: column; justify-content: space-between; }
.plot { padding: 34px 14px 42px 58px; }
.plot svg { display: block; width: 100%; overflow: visible; }
.bar .plot { padding: 10px 0 12px; }
.bar .plot svg { border-radius: 6px; overflow: hidden; }
text { font-size: 12.5px; fill: var(--ink); }
.tick { fill: var(--faint); font-variant-numeric: tabular-nums; }
.axis-title { fill: var(--faint); font-size: 12px; }
.nothing { fill: var(--faint); font-size: 14px; }
.grid { stroke: var(--grid); stroke-width: 1; }
.base { stroke: var(--faint); stroke-width: 1; }
.restart { stroke: var(--pink); stroke-width: 1.5; stroke-dasharray: 5 3; }
.restart-label { fill: var(--pink); font-size: 12px; font-weight: 600; }
.dot { fill: var(--blue); fill-opacity: .62; }
.band { fill: var(--sky); fill-opacity: .38; }
.median, .throughput, .allowed { fill: none; stroke: var(--blue); stroke-width: 2; vector-effect: non-scaling-stroke; }
.allowed { stroke: var(--red); stroke-dasharray: 7 4; }
.throughput { stroke: var(--green); stroke-width: 1.5; }
.throughput-area { fill: var(--green); fill-opacity: .25; }
.average { stroke: var(--faint); stroke-width: 1.2; stroke-dasharray: 2 3; }
.sense { fill: transparent; }
.own { fill: var(--blue); } .taken { fill: var(--orange); } .setup { fill: var(--setup); }
.own-stroke, .taken-stroke { fill: none; stroke: var(--blue); } .taken-stroke { stroke: var(--orange); }
.report { stroke: var(--paper); stroke-opacity: .55; stroke-width: 1; }
.stopped, .failed, .lost, .trim { fill: none; stroke-width: 2.2; stroke-linecap: round; }
.stopped { stroke: var(--red); } .failed { stroke: var(--pink); } .lost { stroke: var(--ink); stroke-width: 3; }
.trim { stroke: var(--ink); stroke-width: 1.6; }
.halo { stroke: var(--paper); stroke-width: 5; }
.share-0 { fill: var(--blue); background: var(--blue); } .share-1 { fill: var(--orange); background: var(--orange); }
.share-2 { fill: var(--green); background: var(--green); } .share-3 { fill: var(--pink); background: var(--pink); }
.share-4 { fill: var(--sky); background: var(--sky); } .share-5 { fill: var(--yellow); background: var(--yellow); }
.share-6 { fill: var(--red); background: var(--red); } .share-7 { fill: var(--dark); background: var(--dark); }
.key { list-style: none; margin: 0; padding: 0; }
.key li { display: flex; gap: 9px; padding: 2px 0; }
.swatch { flex: none; width: 13px; height: 13px; border-radius: 3px; margin-top: 5px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; color: var(--faint); font-size: 13px;
  padding: 0; margin: 4px 0 0; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.legend svg { width: 18px; height: 14px; flex: none; overflow: visible; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-top: 10px; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 6px 14px 6px 0; border-top: 1px solid var(--edge); }
th { color: var(--faint); font-weight: 600; border-top: 0; white-space: nowrap; }
td { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.error { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 13px; min-width: 220px; width: 100%; }
footer { margin-top: 30px; color: var(--faint); font-size: 13px; }
@media (max-width: 760px) {
  main { padding: 18px 14px 32px; } .pair { grid-template-columns: minmax(0, 1fr); }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px; } .tile dd { font-size: 20px; }
  h1 { font-size: 21px; }
  th, td { padding-right: 8px; font-size: 13px; } td.error { min-width: 130px; font-size: 12px; }
}
@media print {
  body { font-size: 11pt; } main { max-width: none; padding: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, section.bar, .tile, tr { break-inside: avoid; } .scroll { overflow: visible; }
  pre.command { max-height: none; }
}
"""
)

# Their middle is at 0, 0, so that they can be put anywhere.
SYMBOLS = """<svg width="0" height="0" style="position:absolute" aria-hidden="true" focusable="false"><defs>
<g id="stopped"><path class="halo" d="M-5-5L5 5M5-5L-5 5"/><path d="M-5-5L5 5M5-5L-5 5"/></g>
<g id="failed"><path class="halo" d="M0-6L6 5H-6Z"/><path d="M0-6L6 5H-6Z"/></g>
<g id="lost"><path class="halo" d="M0-10V10M-6 0H6"/><path d="M0-10V10M-6 0H6"/></g>
<g id="trim"><path class="halo" d="M4-7L-2 0L4 7"/><path d="M4-7L-2 0L4 7"/></g>
</defs></svg>"""
