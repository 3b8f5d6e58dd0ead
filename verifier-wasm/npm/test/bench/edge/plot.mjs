// Draws what was measured of stores: uses in a second, and the 99th percentile of their time, by
// the number of visitors, both on logarithmic scales.

const WIDTH = 900;
const HEIGHT = 430;
const PANEL = { top: 56, height: 300, width: 320 };
const LEFT = [90, 510];
const LEGEND = 400;
/** Colours that people tell apart who see few of them (Okabe and Ito). */
const COLOURS = ["#666666", "#d55e00", "#0072b2", "#009e73", "#999933", "#cc79a7", "#e69f00"];

/** @param {{ visitors: number[], stores: { name: string, uses: object[] }[] }} result */
export function plot({ visitors, stores }) {
  const lines = (figure) => stores.map(({ uses }) => uses.map((use) => use[figure]));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" ` +
      `font-family="sans-serif" font-size="13">`,
    `<rect width="100%" height="100%" fill="white"/>`,
    ...panel(LEFT[0], "links used in a second", visitors, lines("rate")),
    ...panel(LEFT[1], "99th percentile in milliseconds", visitors, lines("p99")),
    ...stores.map(({ name }, at) => legend(name, at)),
    "</svg>",
    "",
  ].join("\n");
}

function panel(left, title, visitors, lines) {
  const numbers = lines.flat();
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const [low, high] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
  const bottom = PANEL.top + PANEL.height;
  const x = (at) => left + (PANEL.width * at) / (visitors.length - 1);
  const y = (value) => bottom - (PANEL.height * (Math.log10(value) - low)) / (high - low);
  const decades = Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
  return [
    `<text x="${left}" y="${PANEL.top - 20}" font-weight="bold">${title}</text>`,
    ...decades.flatMap((value) => [
      `<path d="M${left} ${y(value).toFixed(1)}h${PANEL.width}" stroke="#ddd"/>`,
      `<text x="${left - 8}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end">` +
        `${value.toLocaleString("en")}</text>`,
    ]),
    ...visitors.map(
      (number, at) =>
        `<text x="${x(at)}" y="${bottom + 20}" text-anchor="middle">` +
        `${number} ${number === 1 ? "visitor" : "visitors"}</text>`,
    ),
    ...lines.map((line, index) => {
      const points = line.map((value, at) => `${x(at)},${y(value).toFixed(1)}`);
      return (
        `<polyline points="${points.join(" ")}" fill="none" stroke-width="2" ` +
        `stroke="${COLOURS[index]}"${dashes(index)}/>`
      );
    }),
  ];
}

/** Lines of what runs in a Worker are broken, so that colours are not all that tells them. */
function dashes(index) {
  return index < 4 ? "" : ' stroke-dasharray="7 4"';
}

function legend(name, at) {
  const x = 20 + 225 * (at % 4);
  const y = LEGEND + 20 * Math.floor(at / 4);
  return (
    `<path d="M${x} ${y - 4}h26" stroke="${COLOURS[at]}" stroke-width="2"${dashes(at)}/>` +
    `<text x="${x + 32}" y="${y}">${name}</text>`
  );
}
