//! A share of a kernel's events.

/// How many of a kernel's events lie inside running intervals of their vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Events between the first and the last interval of their vCPU, beside no lost records.
    pub tested: u64,
    /// Those inside an interval, edges included.
    pub inside: u64,
    /// How many would be by chance alone, as the vCPU runs so much of the time.
    pub by_chance: u64,
}

impl Share {
    /// Do all fit, and would enough of them not do so by chance that this tells anything?
    pub fn is_proof(&self) -> bool {
        let by_chance = self.tested.saturating_sub(self.by_chance);
        self.all_fit() && by_chance >= 16
    }

    /// Do all fit, whatever that tells? (One event in a thousand may have a damaged stamp.)
    pub fn all_fit(&self) -> bool {
        self.tested > 0 && (self.tested - self.inside) * 1000 <= self.tested
    }

    /// How much better than chance, 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(super) fn skill(&self) -> f64 {
        let room = self.tested as f64 - self.by_chance as f64;
        if room < 1.0 {
            return 0.0;
        }
        (self.inside as f64 - self.by_chance as f64) / room
    }

    pub(super) fn add(&mut self, other: Share) {
        self.tested += other.tested;
        self.inside += other.inside;
        self.by_chance += other.by_chance;
    }
}
