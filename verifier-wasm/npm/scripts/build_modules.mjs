// Builds the WebAssembly modules: cargo, wasm-bindgen, then wasm-opt,
// then the module's bytes as characters.

import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { ROOT, run } from "./run.mjs";

const WASM_TARGET = "wasm32-unknown-unknown";

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

/**
 * How the module of public keys is compiled: a verification takes a hundred times as long as its
 * hashes and all that is not arithmetic of the curve, so these are small.
 */
const SMALL = [
  `target.${WASM_TARGET}.rustflags = [${[
    `'--cfg=sha2_backend="soft"'`,
    `'--cfg=sha2_backend_soft="compact"'`,
  ]}]`,
  'profile.wasm.package.sha2.opt-level = "s"',
  "profile.wasm.package.mailroom-verifier-core.opt-level = 2",
];

/**
 * The feature of the crate that makes a module, the file in the package, the source that inlines
 * it, and what cargo is told beside its configuration.
 */
const MODULES = [
  { feature: "shared", file: "verifier.wasm", source: "wasm.ts", configuration: [] },
  { feature: "public", file: "public.wasm", source: "public_wasm.ts", configuration: SMALL },
];

const target = resolve(ROOT, process.env.CARGO_TARGET_DIR ?? "target");

/** Writes the modules to `dist` and what TypeScript needs of them to `src/wasm/generated`. */
export function buildModules() {
  for (const folder of ["dist", "src/wasm/generated"]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  for (const { feature, file, source, configuration } of MODULES) {
    const built = join(compiled(feature, configuration), "verifier_bg.wasm");
    const module = join("dist", file);
    run("node_modules/.bin/wasm-opt", [...WASM_OPT, built, "-o", module]);
    const text = characters(readFileSync(module));
    writeFileSync(
      join("src/wasm/generated", source),
      `const wasm: string = "${text}";\nexport default wasm;\n`,
    );
    // The exports of the module of public keys are some of those of the other one.
    if (feature === "shared")
      copyFileSync(`${built}.d.ts`, "src/wasm/generated/verifier_bg.wasm.d.ts");
  }
}

/** Compiles a module, and returns the folder in which it lies. */
function compiled(feature, configuration) {
  const folder = join(target, "npm/bindgen", feature);
  // Flags for the machine's own programs would replace those of .cargo/config.toml.
  const { RUSTFLAGS: _, CARGO_ENCODED_RUSTFLAGS: __, ...env } = process.env;
  const features = ["--no-default-features", "--features", feature];
  const module = [
    "--package",
    "mailroom-verifier-wasm",
    "--lib",
    "--target",
    WASM_TARGET,
    "--profile",
    "wasm",
  ];
  const told = configuration.flatMap((line) => ["--config", line]);
  run("cargo", ["build", "--locked", ...module, ...features, ...told], { cwd: ROOT, env });
  const linked = join(target, WASM_TARGET, "wasm/mailroom_verifier_wasm.wasm");
  rmSync(folder, { recursive: true, force: true });
  bindgen([linked, folder, "verifier"]);
  return folder;
}

/**
 * Runs the program of verifier-wasm/bindgen, in a folder of its own:
 * it waits for no other command of cargo.
 */
function bindgen(arguments_) {
  const manifest = join(ROOT, "verifier-wasm/bindgen/Cargo.toml");
  const env = { ...process.env, CARGO_TARGET_DIR: join(target, "npm/tools") };
  run("cargo", ["run", "--locked", "--manifest-path", manifest, "--", ...arguments_], {
    cwd: ROOT,
    env,
  });
}

/**
 * A byte in one or two printable characters, as `src/wasm/start.ts` reads them. A tenth less of the
 * module than hexadecimal digits, and a quarter less than base64, once it is gzipped.
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
    else
      text +=
        alphabet[singles + Math.floor(rest / alphabet.length)] + alphabet[rest % alphabet.length];
  }
  return text;
}
