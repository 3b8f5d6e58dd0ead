//! Faults that are chosen at random, some more often than others.

/// One of them, as often as its weight says.
pub(crate) fn choose<F: Copy>(weights: &[(F, usize)], random: &mut fastrand::Rng) -> F {
    let all: usize = weights.iter().map(|(_, weight)| weight).sum();
    let mut number = random.usize(..all);
    for (fault, weight) in weights {
        if number < *weight {
            return *fault;
        }
        number -= weight;
    }
    unreachable!("the number is below the sum of the weights")
}
