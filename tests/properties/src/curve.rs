//! Which 32 bytes are a public key, by the equation of the curve (RFC 8032,
//! sections 5.1 and 5.1.3).

use mailroom_verifier_core::InvalidKey;
use num_bigint::BigUint;

/// Decides by arithmetic with whole numbers what the verifier decides with an optimised library.
#[expect(clippy::many_single_char_names, reason = "the names of the RFC")]
pub(crate) fn judge(encoding: [u8; 32]) -> Result<(), InvalidKey> {
    let (zero, one) = (BigUint::from(0_u8), BigUint::from(1_u8));
    let p = (BigUint::from(1_u8) << 255) - 19_u8;
    let x_is_odd = encoding[31] >> 7 == 1;
    let mut y = encoding;
    y[31] &= 0x7f;
    let y = BigUint::from_bytes_le(&y);
    if y >= p {
        return Err(InvalidKey::NotAPoint);
    }

    // −x² + y² = 1 + d·x²·y², so that x² = u / v; d = −121665 / 121666.
    let inverse = |number: &BigUint| number.modpow(&(&p - 2_u8), &p);
    let d = (&p - 121_665_u32) * inverse(&121_666_u32.into()) % &p;
    let yy = &y * &y % &p;
    let u = (&yy + &p - &one) % &p;
    let v = (d * &yy + &one) % &p;
    let xx = u * inverse(&v) % &p;
    let is_square = xx.modpow(&((&p - &one) / 2_u8), &p) <= one;
    if !is_square || (xx == zero && x_is_odd) {
        return Err(InvalidKey::NotAPoint);
    }
    // Order 1 and 2: x = 0. Order 4: y = 0. Order 8: doubling gives y = 0, for which x² + y² = 0.
    if xx == zero || y == zero || (xx + yy) % &p == zero {
        return Err(InvalidKey::SmallOrder);
    }
    Ok(())
}
