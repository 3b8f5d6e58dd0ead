//! Keeps the probes in the program: nothing calls them, so the linker would drop them.

fn main() {
    let bare = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none");
    if bare {
        println!("cargo::rustc-link-arg-bins=--no-gc-sections");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
