//! The verifier as a WebAssembly module, inside the npm package `mailroom-verifier`.
//!
//! Every export takes and returns numbers. Bytes cross through fixed buffers in the module's
//! memory, which JavaScript fills before a call and reads after it: no string encoder, no
//! allocator, nothing to free, and a call that is refused leaves the module as it was. The module
//! imports nothing, so the script that wasm-bindgen generates beside it has nothing to do and is
//! not part of the package; its declarations of the exports are (`npm/src/wasm/engine.ts`).
//!
//! Prepared keys live in JavaScript, where the garbage collector owns them; one of them is in the
//! key buffer while it is used.
//!
//! # Features
//! The package holds two modules, so that neither pays for the other. One feature makes one module;
//! with both, `shared` goes first.
//!
//! | feature | default | what the module does |
//! |---|---|---|
//! | `shared` | yes | verifies v1 and v2 with shared keys |
//! | `public` | no | verifies v3 with public keys |

#![cfg_attr(target_family = "wasm", no_std)]

#[cfg(target_family = "wasm")]
mod bare;
#[cfg(target_family = "wasm")]
mod buffers;
#[cfg(target_family = "wasm")]
pub mod exchange;
#[cfg(all(feature = "public", not(feature = "shared"), target_family = "wasm"))]
pub mod public;
#[cfg(all(feature = "shared", target_family = "wasm"))]
pub mod shared;
#[cfg(target_family = "wasm")]
mod single_thread;
#[cfg_attr(
    not(target_family = "wasm"),
    allow(dead_code, reason = "elsewhere only its tests are of use")
)]
mod status;
