//! What the workloads with servers share: parameters with their ranges, programs that run beside, random numbers that
//! are the same on every machine.

pub mod daemon;
pub mod given;
pub mod random;

#[cfg(test)]
pub(crate) mod bench_of;
#[cfg(test)]
pub(crate) mod stops;
#[cfg(test)]
pub(crate) mod undisturbed;
