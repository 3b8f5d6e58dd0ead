// The pictures of the book and of the front page, from screenshots that the browser tests have
// left: `node make.mjs CONSUMERS PICTURES`. CONSUMERS is where the tests of the package and of the
// demonstration work, PICTURES the folder of the book for pictures. What a test has not left stays
// as it is.

import { existsSync, statSync } from "node:fs";
import { join } from "node:path";

import sharp from "sharp";

const [consumers, pictures] = process.argv.slice(2);

/** Bytes of the largest picture. */
const MOST = 300_000;

/** The demonstration: each screenshot, what is kept of it, and for how long it is shown. */
const WALK = [
  ["web/pictures/walk-through-1200-light.png", 3_000],
  ["web/previews/en-activate.html-1200-light.png", 3_500],
  ["web/pictures/activate-1200-light.png", 3_000],
  ["web/pictures/activated-1200-light.png", 2_500],
  ["web/pictures/refused-1200-light.png", 3_000],
];
const WINDOW = { left: 0, top: 0, width: 1200, height: 680 };

/** Screenshots of the book: from, to, the width in which it is shown. */
const STILL = [
  ["link_handler/pictures/link-activate-en.png", "link-activate.png", 360],
  ["link_handler/pictures/link-recover-en.png", "link-recover.png", 360],
  ["link_handler/pictures/link-expired-en.png", "link-expired.png", 360],
  ["link_handler/pictures/password-en-360-dark.png", "password.png", 360],
  ["dev/pages/1440-light-Light.png", "inbox.png", 1200],
  ["ui/later-1280.png", "screen.png", 1000],
  ["web/pictures/pipeline-1200-light.png", "pipeline.png", 1000],
  ["web/previews/en-activate.html-1200-light.png", "mail.png", 800],
];

/** A frame of the moving picture: the top of the page, on white where the page is shorter. */
async function frame(path) {
  const { width, height } = await sharp(path).metadata();
  const kept = {
    ...WINDOW,
    width: Math.min(width, WINDOW.width),
    height: Math.min(height, WINDOW.height),
  };
  return sharp(path)
    .extract(kept)
    .resize({ width: 900, height: 510, fit: "contain", background: "white" })
    .flatten({ background: "white" })
    .png()
    .toBuffer();
}

/** Says what was written; a picture that makes the page slow is an error. */
function said(file) {
  const bytes = statSync(file).size;
  if (bytes > MOST) throw new Error(`${file} has ${bytes} bytes, more than ${MOST}`);
  console.log(`${file}: ${Math.ceil(bytes / 1000)} kB`);
}

const missing = (names) => names.filter((name) => !existsSync(join(consumers, name)));

const lost = missing(WALK.map(([name]) => name));
if (lost.length > 0) {
  console.log(`no moving picture without ${lost.join(", ")}; run: cargo xtask test web`);
} else {
  const frames = await Promise.all(WALK.map(([name]) => frame(join(consumers, name))));
  const file = join(pictures, "demonstration.webp");
  await sharp(frames, { join: { animated: true } })
    .webp({ quality: 80, effort: 6, loop: 0, delay: WALK.map(([, shown]) => shown) })
    .toFile(file);
  said(file);
}

for (const [name, target, width] of STILL) {
  const source = join(consumers, name);
  if (!existsSync(source)) {
    console.log(`${target} stays as it is: no test has left ${name}`);
    continue;
  }
  const file = join(pictures, target);
  await sharp(source)
    .resize({ width, withoutEnlargement: true })
    .flatten({ background: "white" })
    .png({ palette: true, effort: 10 })
    .toFile(file);
  said(file);
}
