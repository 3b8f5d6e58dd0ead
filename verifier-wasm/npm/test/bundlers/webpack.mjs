import { promisify } from "node:util";

import webpack from "webpack";

export const name = "webpack";
export const version = webpack.version;

/** Builds `entry` of `source` into `main.mjs` of `output`, for `node` or a `browser`. */
export async function bundle({ source, entry, output, target }) {
  const compiler = webpack({
    mode: "production",
    context: source,
    entry: `./${entry}`,
    target: target === "node" ? "node20" : "web",
    experiments: { outputModule: true },
    output: { path: output, filename: "main.mjs", library: { type: "module" } },
    performance: false,
  });
  const stats = await promisify(compiler.run.bind(compiler))();
  await promisify(compiler.close.bind(compiler))();
  const { errors, warnings } = stats.toJson({ all: false, errors: true, warnings: true });
  const [problem] = [...errors, ...warnings];
  if (problem !== undefined) {
    throw new Error(`${problem.moduleName ?? entry}: ${problem.message}`);
  }
}
