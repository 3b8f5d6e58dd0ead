// Builds the WebAssembly modules: wasm-pack (cargo, wasm-bindgen), then wasm-opt, then the module's bytes as characters.

import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

import { ROOT, run } from "./run.mjs";

const WASM_PACK = "0.15.1";

const WASM_OPT = [
  // What wasm-bindgen exports for its own script.
  "--remove-exports=__wbindgen_*,__abort_handler,__instance_terminated",
  // The compiler has optimized for speed; this is 1% smaller than -O3, and as fast.
  "-Oz",
  "--converge",
  "--all-features",
  "--strip-debug",
  "--strip-producers",
  "--strip-target-features",
];

/** The feature of the crate that makes a module, the file in the package, the source that inlines it. */
const MODULES = [
  { feature: "shared", file: "verifier.wasm", source: "wasm.ts" },
  { feature: "public", file: "public.wasm", source: "public_wasm.ts" },
];

const target = resolve(ROOT, process.env.CARGO_TARGET_DIR ?? "target");
const tools = resolve(ROOT, process.env.MAILROOM_TOOLS ?? join(target, "tools"));

/** Writes the modules to `dist` and what TypeScript needs of them to `src/generated`. */
export function buildModules() {
  for (const folder of ["dist", "src/generated"]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  for (const { feature, file, source } of MODULES) {
    const built = join(wasmPack(feature), "verifier_bg.wasm");
    const module = join("dist", file);
    run("node_modules/.bin/wasm-opt", [...WASM_OPT, built, "-o", module]);
    const text = characters(readFileSync(module));
    writeFileSync(join("src/generated", source), `const wasm: string = "${text}";\nexport default wasm;\n`);
    // The exports of the module of public keys are some of those of the other one.
    if (feature === "shared") copyFileSync(`${built}.d.ts`, "src/generated/verifier_bg.wasm.d.ts");
  }
}

/** Compiles a module, and returns the folder in which it lies. */
function wasmPack(feature) {
  const wasmBindgen = installed("wasm-bindgen-cli", versionOf("wasm-bindgen"));
  const folder = join(target, "npm/wasm-pack", feature);
  // Flags for the machine's own programs would replace those of .cargo/config.toml.
  const { RUSTFLAGS: _, CARGO_ENCODED_RUSTFLAGS: __, ...env } = process.env;
  const crate = join(ROOT, "verifier-wasm");
  run(
    join(installed("wasm-pack", WASM_PACK), "wasm-pack"),
    [
      ...["build", crate, "--target", "web", "--out-name", "verifier", "--out-dir", folder],
      ...["--profile", "wasm", "--no-opt", "--no-pack"],
      ...["--", "--locked", "--no-default-features", "--features", feature],
    ],
    { cwd: ROOT, env: { ...env, PATH: `${wasmBindgen}${delimiter}${env.PATH}` } },
  );
  return folder;
}

/** The version of a crate in Cargo.lock: that of the program `wasm-bindgen` must be the same. */
function versionOf(crate) {
  const lock = readFileSync(join(ROOT, "Cargo.lock"), "utf8");
  const [, version] = new RegExp(`name = "${crate}"\nversion = "(.+)"`).exec(lock);
  return version;
}

/** The folder of a crate's program in exactly this version, compiled unless it was before. */
function installed(crate, version) {
  const folder = join(tools, `${crate}-${version}`);
  if (!existsSync(join(folder, ".crates.toml"))) {
    console.error(`build ${crate} ${version}, once, in some minutes ...`);
    // What both programs depend on is compiled once. They run for a second, so optimizing them takes longer than it saves.
    const env = { ...process.env, CARGO_TARGET_DIR: join(target, "npm/tools"), CARGO_PROFILE_DEV_DEBUG: "0" };
    const arguments_ = ["install", "--locked", "--debug", "--version", version, crate, "--root", folder];
    run("cargo", arguments_, { cwd: ROOT, env });
  }
  return join(folder, "bin");
}

/**
 * A byte in one or two printable characters, as `src/start.ts` reads them. A tenth less of the module than hexadecimal
 * digits, and a quarter less than base64, once it is gzipped.
 */
function characters(bytes) {
  const FIRST = 246;
  const alphabet = Array.from({ length: 92 }, (_, index) => String.fromCharCode(35 + index));
  alphabet.splice(alphabet.indexOf("\\"), 1);
  const singles = alphabet.length - 2;
  let text = "";
  for (const byte of bytes) {
    const value = (byte - FIRST + 256) % 256;
    const rest = value - singles;
    if (rest < 0) text += alphabet[value];
    else text += alphabet[singles + Math.floor(rest / alphabet.length)] + alphabet[rest % alphabet.length];
  }
  return text;
}
