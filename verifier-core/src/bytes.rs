//! Byte strings whose layout the compiler knows.

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
