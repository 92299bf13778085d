//! The compact collector without the recorder (see the role `compact`).

use super::tracer::{Tracer, Wish};
use crate::{
    bed::{Bed, output},
    process::Beside,
    roles::Pairs,
    traced::Traced,
};
use anyhow::Result;
use clap::ValueEnum;
use std::path::Path;

/// The compact collector, with pairs recorded in this way.
#[derive(Clone, Copy, Debug)]
pub struct Collector(pub Pairs);

impl Tracer for Collector {
    fn name(&self) -> String {
        match self.0 {
            Pairs::Folded => "compact collector",
            Pairs::Two => "compact collector, two records",
            Pairs::ExitOnly => "compact collector, exits only",
            Pairs::Empty => "empty BPF programs",
            Pairs::Stamp => "BPF programs that read the clock",
        }
        .to_owned()
    }

    fn why_not(&self, _bed: &Bed) -> Option<String> {
        transect_bpf::can_run().err().map(|why| why.to_string())
    }

    fn share(&self) -> Option<f64> {
        match self.0 {
            Pairs::Folded | Pairs::Two => Some(1.0),
            Pairs::ExitOnly => Some(0.5),
            Pairs::Empty | Pairs::Stamp => None,
        }
    }

    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        let out = bed.scratch()?;
        let beside = self.beside(bed, wish, &out.path().join("logs.compact"))?;
        let said = output(load)?;
        Ok((said, beside.end()?))
    }
}

impl Collector {
    /// Starts it; its records go to a file.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn beside(&self, bed: &Bed, wish: &Wish, file: &Path) -> Result<Beside> {
        let (file, kib) = (file.display().to_string(), wish.buffer_kib.to_string());
        let pairs = self.0.to_possible_value();
        let pairs = pairs.as_ref().map_or("folded", |value| value.get_name());
        let mut arguments = vec!["compact", "--pairs", pairs, "--buffer-kib", &kib, "--out", &file];
        arguments.extend(wish.events);
        Beside::start(&wish.place(bed.role(&arguments)))
    }
}
