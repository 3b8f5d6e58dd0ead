//! Points of the curve -x² + y² = 1 + d x² y² modulo 2²⁵⁵ - 19.

use super::{
    field::Field,
    scalar::{self, DIGITS, ODD},
};

/// -121665 / 121666.
const D: Field = Field::from_words([
    0x75eb_4dca_1359_78a3,
    0x0070_0a4d_4141_d8ab,
    0x8cc7_4079_7779_e898,
    0x5203_6cee_2b6f_fe73,
]);

/// A number whose square is -1.
const ROOT: Field = Field::from_words([
    0xc4ee_1b27_4a0e_a0b0,
    0x2f43_1806_ad2f_e478,
    0x2b4d_0099_3dfb_d7a7,
    0x2b83_2480_4fc1_df0b,
]);

/// The point (e / g, h / f), whose denominators are not 0: what additions and doublings make,
/// before they are multiplied out as far as the next one needs it.
#[derive(Clone, Copy)]
pub(super) struct Point {
    e: Field,
    f: Field,
    g: Field,
    h: Field,
}

impl Point {
    const NEUTRAL: Self = Self::new(Field::ZERO, Field::ONE);

    /// The base point (RFC 8032, section 5.1).
    pub(super) const BASE: Self = Self::new(
        Field::from_words([
            0xc956_2d60_8f25_d51a,
            0x692c_c760_9525_a7b2,
            0xc0a4_e231_fdd6_dc5c,
            0x2169_36d3_cd6e_53fe,
        ]),
        Field::from_words([
            0x6666_6666_6666_6658,
            0x6666_6666_6666_6666,
            0x6666_6666_6666_6666,
            0x6666_6666_6666_6666,
        ]),
    );

    const fn new(x: Field, y: Field) -> Self {
        Self { e: x, f: Field::ONE, g: Field::ONE, h: y }
    }

    /// The point of an encoding (RFC 8032, section 5.1.3), if it is the only one of that point.
    pub(super) fn decode(encoding: [u64; 4]) -> Option<Self> {
        let y = Field::from_words(encoding);
        let y_squared = y * y;
        let (u, v) = (y_squared - Field::ONE, D * y_squared + Field::ONE);
        let v_cubed = v * v * v;
        let x = u * v_cubed * (u * v_cubed * v_cubed * v).power();
        let x = [x, x * ROOT].into_iter().find(|x| (v * *x * *x - u).is_zero())?;
        let [.., top] = encoding;
        let x = if x.is_odd() == (top >> 63 == 1) { x } else { -x };
        // Another one is that of a y that is not reduced, or of an x of 0 with a sign.
        (encoding_of(x, y) == encoding).then(|| Self::new(x, y))
    }

    /// The encoding (RFC 8032, section 5.1.2).
    pub(super) fn encode(&self) -> [u64; 4] {
        let inverse = (self.f * self.g).inverted();
        encoding_of(self.e * self.f * inverse, self.g * self.h * inverse)
    }

    pub(super) fn negated(&self) -> Self {
        Self { e: -self.e, ..*self }
    }

    /// Whether eight times the point is the neutral one. Eight times a point has an odd order, and
    /// of the two points whose x is 0 the neutral one alone has that.
    pub(super) fn is_of_small_order(&self) -> bool {
        self.doubled().doubled().doubled().e.is_zero()
    }

    /// By the formulas "dbl-2008-hwcd" of Hisil, Wong, Carter and Dawson, with f and h negated.
    #[expect(clippy::many_single_char_names, reason = "the names of the formulas")]
    fn doubled(&self) -> Self {
        let (x, y, z) = (self.e * self.f, self.g * self.h, self.f * self.g);
        let (xx, yy, zz) = (x * x, y * y, z * z);
        let (g, h) = (yy - xx, yy + xx);
        Self { e: (x + y) * (x + y) - h, f: zz + zz - g, g, h }
    }

    /// By their formulas "add-2008-hwcd-3", which hold for all points.
    #[expect(clippy::many_single_char_names, reason = "the names of the formulas")]
    fn plus(&self, other: &Addend) -> Self {
        let (x, y) = (self.e * self.f, self.g * self.h);
        let (z, t) = (self.f * self.g, self.e * self.h);
        let a = (y - x) * other.y_less_x;
        let b = (y + x) * other.y_plus_x;
        let c = t * other.t;
        let d = z * other.z;
        Self { e: b - a, f: d - c, g: d + c, h: b + a }
    }

    fn addend(&self) -> Addend {
        let (x, y) = (self.e * self.f, self.g * self.h);
        let (z, t) = (self.f * self.g, self.e * self.h * D);
        Addend { y_plus_x: y + x, y_less_x: y - x, z: z + z, t: t + t }
    }
}

fn encoding_of(x: Field, y: Field) -> [u64; 4] {
    let mut words = y.to_words();
    words[3] |= u64::from(x.is_odd()) << 63;
    words
}

/// A point (x / z, y / z), as it is added to others: y + x, y - x, 2z, and 2dxy / z.
#[derive(Clone, Copy)]
struct Addend {
    y_plus_x: Field,
    y_less_x: Field,
    z: Field,
    t: Field,
}

impl Addend {
    fn negated(&self) -> Self {
        Self { y_plus_x: self.y_less_x, y_less_x: self.y_plus_x, z: self.z, t: -self.t }
    }
}

/// A multiple of a point, as it is added to another one.
pub(super) struct Term {
    digits: [i8; DIGITS],
    /// The odd multiples that the digits name.
    multiples: [Addend; ODD],
}

impl Term {
    // Not inlined: a copy of a term takes more than a kilobyte of the stack.
    #[inline(never)]
    pub(super) fn new(number: &[u64; 4], point: &Point) -> Self {
        let twice = point.doubled().addend();
        let mut multiple = *point;
        let mut term = Self { digits: scalar::digits(number), multiples: [point.addend(); ODD] };
        for addend in &mut term.multiples[1..] {
            multiple = multiple.plus(&twice);
            *addend = multiple.addend();
        }
        term
    }

    /// The sum, if there is a digit at this place.
    fn added_to(&self, sum: &Point, place: usize) -> Point {
        let digit = self.digits[place];
        match self.multiples.get(usize::from(digit.unsigned_abs() / 2)) {
            Some(addend) if digit > 0 => sum.plus(addend),
            Some(addend) if digit < 0 => sum.plus(&addend.negated()),
            _ => *sum,
        }
    }
}

/// The sum of two multiples. Not in constant time.
pub(super) fn sum(one: &Term, other: &Term) -> Point {
    let places = (0..DIGITS).rev();
    places.fold(Point::NEUTRAL, |sum, place| {
        other.added_to(&one.added_to(&sum.doubled(), place), place)
    })
}
