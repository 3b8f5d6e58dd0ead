//! `mailroom-bindgen INPUT FOLDER NAME`: writes `NAME_bg.wasm` with the exports that JavaScript can
//! call, and their types, to `FOLDER`.

use std::env;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [input, folder, name] = arguments.as_slice() else {
        eprintln!("usage: mailroom-bindgen INPUT FOLDER NAME");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).out_name(name).typescript(true);
    let made = bindgen.web(true).and_then(|bindgen| bindgen.generate(folder));
    if let Err(error) = made {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
