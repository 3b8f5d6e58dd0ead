//! Fields of byte strings whose layout the compiler knows; every caller's offsets are constants.

/// The `N` bytes from `start` on.
#[inline]
pub(crate) fn field<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[start..start + N]);
    field
}

/// The parts one after the other; `N` is the sum of their lengths.
#[inline]
pub(crate) fn concat<const N: usize, const P: usize>(parts: [&[u8]; P]) -> [u8; N] {
    let mut joined = [0; N];
    let mut start = 0;
    for part in parts {
        joined[start..start + part.len()].copy_from_slice(part);
        start += part.len();
    }
    debug_assert_eq!(start, N, "the caller's lengths do not agree");
    joined
}
