//! The allocator and the panic handler of a program without a standard library: no heap, and no
//! report of a panic.
//!
//! The standard library would add a third more bytes: an allocator that nothing calls, and the text
//! formatting of a panic that never happens. (The SIMD implementation of SHA-256 indexes its table
//! of constants in a loop, and the optimiser keeps the check.)

use core::{
    alloc::{GlobalAlloc, Layout},
    arch::wasm32,
    panic::PanicInfo,
    ptr,
};

/// wasm-bindgen names the crate `alloc`, which cannot be linked without an allocator.
#[global_allocator]
static NO_HEAP: NoHeap = NoHeap;

struct NoHeap;

#[expect(
    unsafe_code,
    reason = "the trait is unsafe to implement; refusing every request keeps its contract"
)]
// SAFETY: a null pointer means that there is no memory, so no block ever exists to be freed.
unsafe impl GlobalAlloc for NoHeap {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    wasm32::unreachable()
}
