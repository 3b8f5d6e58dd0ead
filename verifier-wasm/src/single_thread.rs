//! Statics of a module that has one thread.

use core::ops::Deref;

#[cfg(target_feature = "atomics")]
compile_error!(
    "this module keeps its state without locks, \
     so it must be compiled without the target feature `atomics`"
);

/// A cell that only the one thread of the module reaches.
#[repr(transparent)]
pub(crate) struct SingleThread<T>(pub(crate) T);

impl<T> Deref for SingleThread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[expect(
    unsafe_code,
    reason = "a static has to be shareable, and this module has nobody to share it with"
)]
// SAFETY: the crate is compiled for WebAssembly without the atomics that threads would need (this
// file for nothing else, which the compile error above sees to),
// so no two threads ever run in a module.
unsafe impl<T> Sync for SingleThread<T> {}
