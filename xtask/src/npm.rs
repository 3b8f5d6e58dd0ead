//! `cargo xtask npm`: builds the npm package and packs it.
//!
//! Rust → wasm-pack (cargo, wasm-bindgen) → wasm-opt → the module; its bytes in characters and the hand-written TypeScript →
//! tsc, esbuild → `npm pack`. The same sources give the same tarball.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use mailroom_tests::tools::{target_folder, workspace};

use crate::step::{Steps, watch};
use crate::{node, tools};

/// The same version as the crate `wasm-bindgen` in Cargo.toml.
const WASM_BINDGEN: &str = "0.2.128";
const WASM_PACK: &str = "0.15.1";

const WASM_OPT: [&str; 7] = [
    // What wasm-bindgen exports for its own script.
    "--remove-exports=__wbindgen_*,__abort_handler,__instance_terminated",
    // The compiler has seen to the speed; this is 1% smaller than -O3, and as fast.
    "-Oz",
    "--converge",
    "--all-features",
    "--strip-debug",
    "--strip-producers",
    "--strip-target-features",
];

/// The files of `npm/src` that package.json names. All bundles lie in one folder.
const ENTRIES: [&str; 12] = [
    "inline",
    "workerd",
    "slim",
    "public",
    "public_workerd",
    "create_guard",
    "stores/redis",
    "stores/postgres",
    "stores/durable_object",
    "conformance",
    "errors",
    "cli",
];

/// Those of them that have a `CommonJS` form, in a folder of its own.
const REQUIRED: [&str; 9] = [
    "inline",
    "slim",
    "public",
    "create_guard",
    "stores/redis",
    "stores/postgres",
    "stores/durable_object",
    "conformance",
    "errors",
];

/// The modules: the feature of `verifier-wasm` that makes one, the file in the package, the source that inlines it.
const MODULES: [(&str, &str, &str); 2] =
    [("shared", "verifier.wasm", "wasm.ts"), ("public", "public.wasm", "public_wasm.ts")];

/// What the tarball is made of; of folders, all that is in them, except for [`MADE`].
const SOURCES: [&str; 7] = [
    ".cargo/config.toml",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "verifier-core",
    "verifier-wasm",
    "xtask/src/npm.rs",
];
const MADE: [&str; 6] = ["node_modules", "dist", "docs", "generated", "LICENSE", "test"];

pub(crate) fn run() -> Result<ExitCode> {
    let tarball = tarball()?;
    let module = fs::metadata(package().join("dist/verifier.wasm"))?.len();
    println!("{}: {} bytes, its module {module}", tarball.display(), fs::metadata(&tarball)?.len());
    Ok(ExitCode::SUCCESS)
}

/// The packed package, made anew if anything that it is made of has changed.
pub(crate) fn tarball() -> Result<PathBuf> {
    let folder = target_folder().join("npm");
    let (made_of, sources) = (folder.join("made-of"), sources()?);
    if let Ok(made) = fs::read_to_string(&made_of)
        && let Some((seen, name)) = made.split_once(' ')
        && seen == sources
        && folder.join(name).is_file()
    {
        return Ok(folder.join(name));
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    node::install(&package())?;
    build_modules(&folder)?;
    compile()?;
    let name = pack(&folder)?;
    fs::write(&made_of, format!("{sources} {name}"))?;
    Ok(folder.join(name))
}

/// Checks the sources, packs them, and tests what was packed: its contents, its types, its command line.
pub(crate) fn test(steps: &mut Steps) {
    steps.command("formatting and lints of the npm package", || {
        node::install(&package())?;
        let mut command = Command::new(package().join("node_modules/.bin/biome"));
        command.args(["ci", "--colors=off", "."]).current_dir(package());
        Ok(command)
    });
    steps.command("npm package", || {
        let tarball = tarball()?;
        node::install_test_tools()?;
        let mut command = node::command()?;
        command.arg(package().join("test/main.mjs"));
        command.arg(tarball).arg(target_folder().join("consumers/npm"));
        Ok(command)
    });
}

fn package() -> PathBuf {
    workspace().join("verifier-wasm/npm")
}

/// A number for the contents of everything that the tarball is made of.
fn sources() -> Result<String> {
    let mut files = BTreeSet::new();
    for source in SOURCES {
        collect(&workspace().join(source), &mut files)?;
    }
    let compiler = Command::new("rustc").arg("--version").output().context("cannot run rustc")?;
    let mut hasher = DefaultHasher::new();
    compiler.stdout.hash(&mut hasher);
    for file in files {
        (&file, read(&file)?).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn collect(path: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.insert(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let entry = entry?;
        if !MADE.iter().any(|made| entry.file_name() == *made) {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}

/// Compiles the modules, and puts them and what TypeScript needs to know of them into the package.
fn build_modules(folder: &Path) -> Result<()> {
    let (generated, dist) = (package().join("src/generated"), package().join("dist"));
    for made in [&generated, &dist] {
        fs::remove_dir_all(made).ok();
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    for (feature, file, source) in MODULES {
        let built = build_module(folder, feature)?;
        let module = dist.join(file);
        let mut command = Command::new(package().join("node_modules/.bin/wasm-opt"));
        command.args(WASM_OPT);
        quiet(
            command.arg(built.join("verifier_bg.wasm")).arg("-o").arg(&module),
            &format!("optimise the module of {feature} keys"),
        )?;
        let inlined =
            format!("const wasm: string = \"{}\";\nexport default wasm;\n", characters(&fs::read(&module)?));
        fs::write(generated.join(source), inlined)?;
        // The module of public keys has some of the exports of the other one, and none besides.
        if feature == "shared" {
            fs::copy(built.join("verifier_bg.wasm.d.ts"), generated.join("verifier_bg.wasm.d.ts"))?;
        }
    }
    Ok(())
}

/// Compiles one module, and returns the folder in which it lies.
fn build_module(folder: &Path, feature: &str) -> Result<PathBuf> {
    let wasm_bindgen = tools::install("wasm-bindgen-cli", "wasm-bindgen", WASM_BINDGEN)?;
    let wasm_pack = tools::install("wasm-pack", "wasm-pack", WASM_PACK)?;
    tools::add_targets(&["wasm32-unknown-unknown"])?;
    let built = folder.join("wasm-pack").join(feature);
    let mut command = Command::new(wasm_pack);
    command.args([
        "build",
        "verifier-wasm",
        "--mode",
        "no-install",
        "--target",
        "web",
        "--out-name",
        "verifier",
    ]);
    command.args(["--profile", "wasm", "--no-opt", "--no-pack", "--out-dir"]).arg(&built);
    command.args(["--", "--locked", "--no-default-features", "--features", feature]).current_dir(workspace());
    // Flags for the machine's own programs would replace those of .cargo/config.toml.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("PATH", tools::path_with(wasm_bindgen.parent().unwrap_or(folder))?);
    watch(&mut command, &format!("compile the verifier of {feature} keys to WebAssembly"))?;
    Ok(built)
}

/// A byte in one or two printable characters, as `npm/src/start.ts` reads them. A tenth less of the module than hexadecimal
/// digits, and a quarter less than base64, once it is gzipped.
fn characters(bytes: &[u8]) -> String {
    const FIRST: u8 = 246;
    let alphabet: Vec<char> = ('#'..='~').filter(|character| *character != '\\').collect();
    let singles = alphabet.len() - 2;
    let mut text = String::new();
    for byte in bytes {
        let value = usize::from(byte.wrapping_sub(FIRST));
        match value.checked_sub(singles) {
            None => text.push(alphabet[value]),
            Some(rest) => {
                text.extend([alphabet[singles + rest / alphabet.len()], alphabet[rest % alphabet.len()]]);
            }
        }
    }
    text
}

/// Checks the types, writes the declarations, and bundles each entry into one file: Node takes a third of a millisecond
/// for every further one. The errors stay apart, because all entries share them.
fn compile() -> Result<()> {
    let package = package();
    // Not by .bin, where the compiler has the same name as the older ones of the reference and of the tests.
    let mut command = Command::new("node");
    command.arg(package.join("node_modules/typescript-7/bin/tsc")).current_dir(&package);
    quiet(&mut command, "check the TypeScript")?;
    bundle(&ENTRIES, "esm", "dist")?;
    compile_for_require()?;
    for (workerd, edge) in [("workerd.js", "edge.js"), ("public_workerd.js", "public_edge.js")] {
        // What Nitro and Next.js import as a module, instead of instantiating it themselves, ends in `?module`.
        let bundle = read(&package.join("dist").join(workerd))?;
        let imported = bundle.replace(".wasm\";", ".wasm?module\";");
        ensure!(imported != bundle, "dist/{workerd} imports no module");
        fs::write(package.join("dist").join(edge), imported)?;
    }
    for declared in ["verifier.d.wasm.ts", "public.d.wasm.ts"] {
        fs::copy(package.join("src").join(declared), package.join("dist").join(declared))?;
    }
    let mut command = Command::new(package.join("node_modules/.bin/typedoc"));
    quiet(command.current_dir(&package), "write the reference")?;
    fs::copy(workspace().join("LICENSE"), package.join("LICENSE"))?;
    Ok(())
}

fn bundle(entries: &[&str], format: &str, folder: &str) -> Result<()> {
    let package = package();
    let mut command = Command::new(package.join("node_modules/.bin/esbuild"));
    command.args(entries.iter().map(|entry| format!("src/{entry}.ts")));
    command.args([&format!("--format={format}"), &format!("--outdir={folder}")]);
    // Only for Node are the names written that its `import` finds in CommonJS.
    command.arg(if format == "cjs" { "--platform=node" } else { "--platform=neutral" });
    command.args(["--bundle", "--target=es2022", "--entry-names=[name]"]);
    command.args(["--loader:.lua=text", "--loader:.sql=text"]);
    command.args(["--external:./errors.js", "--external:./*.wasm", "--external:node:*"]);
    quiet(command.args(["--log-level=warning"]).current_dir(&package), "bundle the entries")?;
    Ok(())
}

/// The entries for those that cannot `require` a module, such as Jest. Runtimes and bundlers that can have one copy, by the
/// conditions `module-sync`, `bun` and `module`: of two, each would take the errors of the other for strange ones.
fn compile_for_require() -> Result<()> {
    bundle(&REQUIRED, "cjs", "dist/cjs")?;
    let (dist, folder) = (package().join("dist"), package().join("dist/cjs"));
    fs::write(folder.join("package.json"), "{ \"type\": \"commonjs\" }\n")?;
    // TypeScript takes a declaration for that of a module, or not, by the same file. Those are copied that package.json names.
    fs::create_dir_all(folder.join("stores"))?;
    let list = read(&package().join("package.json"))?;
    for named in list.split('"').filter_map(|text| text.strip_prefix("dist/")) {
        if named.ends_with(".d.ts") {
            fs::copy(dist.join(named), folder.join(named)).with_context(|| format!("cannot copy {named}"))?;
        }
    }
    Ok(())
}

fn pack(folder: &Path) -> Result<String> {
    let mut command = Command::new("npm");
    command.args(["pack", "--silent", "--pack-destination"]).arg(folder).current_dir(package());
    Ok(quiet(&mut command, "pack the npm package")?.trim().to_owned())
}

/// Runs a command, says what it does, and shows what it prints only if it fails. Returns its standard output.
fn quiet(command: &mut Command, what: &str) -> Result<String> {
    eprintln!("{what} ...");
    let output = command.output().with_context(|| {
        let program = command.get_program().to_string_lossy().into_owned();
        format!("cannot {what}: there is no {program}")
    })?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "cannot {what}:\n{out}{err}");
    Ok(out.into_owned())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
