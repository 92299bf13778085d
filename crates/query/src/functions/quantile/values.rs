//! What a group's values are kept in, and the rank of a quantile among them.

/// What a group's values are kept in.
pub(crate) trait Values: Default + std::fmt::Debug + Send + Sync + 'static {
    /// Takes a value.
    fn add(&mut self, value: i64);
    /// Writes everything kept, for another to [`Self::merge`].
    fn encode(&self, out: &mut Vec<u8>);
    /// Takes all values of another's state.
    fn merge(&mut self, state: &[u8]);
    /// The value of nearest rank; none without values.
    fn quantile(&mut self, q: f64) -> Option<i64>;
    /// Memory held, bytes.
    fn size_bytes(&self) -> usize;
}

/// The nearest rank, from 1 to `count`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count lies between 0 and that count"
)]
pub(super) fn rank(count: usize, q: f64) -> usize {
    ((count as f64 * q).ceil() as usize).clamp(1, count.max(1))
}
