//! What the workloads with servers share: parameters with their ranges, programs that run beside, random numbers that
//! are the same on every machine.

pub(crate) mod daemon;
pub(crate) mod given;
pub(crate) mod random;

#[cfg(test)]
pub(crate) mod bench_of;
#[cfg(test)]
pub(crate) mod stops;
#[cfg(test)]
pub(crate) mod undisturbed;
