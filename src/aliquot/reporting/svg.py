"""A small pen for SVG.

Across, everything is in per cent of the width, and down in pixels. So a chart has the width that there is while its
letters and dots keep their size, with no script. Only lines and areas, which know no per cent, are stretched.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_STRETCHED = 1000.0  # the width that lines and areas are drawn in


def escape(text: str) -> str:
    """For a page: as text, or as an attribute; what no page can hold is shown as such."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = "".join(
        character if character >= " " or character in "\n\t" else "\N{REPLACEMENT CHARACTER}" for character in text
    )
    return html.escape(text, quote=True)


def percent(part: float) -> str:
    """0.5 -> '50%'."""
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + "%"


def pixels(value: float) -> str:
    """With no more digits than can be seen."""
    return f"{value:.1f}".removesuffix(".0")


class Drawing:
    """Shapes, in the order that they are drawn in; classes give them their colours."""

    def __init__(self, title: str, description: str, height: float) -> None:
        self.title = title
        self._description = description
        self.height = height
        self._shapes: list[str] = []

    def rect(self, across: tuple[float, float], top: float, height: float, name: str, tip: str = "") -> None:
        """``across`` is from where to where, as parts of the width; never too narrow to be seen."""
        left, right = across
        right = max(right, min(1.0, left + 0.0012))
        left = min(left, right - 0.0012)
        self._add(
            f'<rect class="{name}" x="{percent(left)}" y="{pixels(top)}" width="{percent(right - left)}" '
            f'height="{pixels(height)}"',
            "rect",
            tip,
        )

    def dot(self, across: float, down: float, radius: float, name: str, tip: str = "") -> None:
        """A filled circle."""
        position = f'cx="{percent(across)}" cy="{pixels(down)}" r="{pixels(radius)}"'
        self._add(f'<circle class="{name}" {position}', "circle", tip)

    def symbol(self, across: float, down: float, symbol: str, tip: str = "") -> None:
        """One of the page's symbols."""
        position = f'x="{percent(across)}" y="{pixels(down)}"'
        self._add(f'<use class="{symbol}" href="#{symbol}" {position}', "use", tip)

    def line(self, across: tuple[float, float], down: tuple[float, float], name: str, tip: str = "") -> None:
        """A straight line."""
        position = f'x1="{percent(across[0])}" x2="{percent(across[1])}" y1="{pixels(down[0])}" y2="{pixels(down[1])}"'
        self._add(f'<line class="{name}" {position}', "line", tip)

    def text(self, across: str, down: float, text: str, name: str, anchor: str = "middle") -> None:
        """``across`` is a percentage or a number of pixels."""
        self._shapes.append(
            f'<text class="{name}" x="{across}" y="{pixels(down)}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def polyline(self, points: Iterable[tuple[float, float]], name: str) -> None:
        """A line through points (part of the width, pixels down)."""
        self._path("M" + "L".join(map(_point, points)), name)

    def area(self, points: Sequence[tuple[float, float]], name: str) -> None:
        """The inside of a closed line."""
        self._path("M" + "L".join(map(_point, points)) + "Z", name)

    def strokes(self, strokes: Iterable[tuple[float, float, float]], thickness: float, name: str) -> None:
        """Many level strokes (from, to, pixels down) as one shape, which is small."""
        path = "".join(
            f"M{pixels(_STRETCHED * left)} {pixels(down)}H{pixels(_STRETCHED * max(right, left + 0.0012))}"
            for left, right, down in strokes
        )
        if path:
            self._path(path, name, f' stroke-width="{thickness:.2f}"')

    def render(self, identifier: str) -> str:
        """The chart; its title and description are for those who do not see it."""
        return (
            f'<div class="plot"><svg role="img" aria-labelledby="{identifier}-title {identifier}-desc" '
            f'style="height:{pixels(self.height)}px">'
            f'<title id="{identifier}-title">{escape(self.title)}</title>'
            f'<desc id="{identifier}-desc">{escape(self._description)}</desc>\n'
            + "\n".join(self._shapes)
            + "</svg></div>"
        )

    def _path(self, path: str, name: str, more: str = "") -> None:
        self._shapes.append(
            f'<svg viewBox="0 0 {_STRETCHED:.0f} {pixels(self.height)}" width="100%" height="{pixels(self.height)}" '
            f'preserveAspectRatio="none"><path class="{name}"{more} d="{path}"/></svg>'
        )

    def _add(self, opening: str, tag: str, tip: str) -> None:
        self._shapes.append(f"{opening}><title>{escape(tip)}</title></{tag}>" if tip else f"{opening}/>")


def _point(point: tuple[float, float]) -> str:
    across, down = point
    return f"{pixels(_STRETCHED * across)} {pixels(down)}"
