//! Raw ftrace (see the role of that name).

use super::tracer::{Tracer, Wish};
use crate::{
    bed::{Bed, output},
    process::Beside,
    traced::Traced,
};
use anyhow::Result;
use std::fs;

/// Raw ftrace with this trace clock.
#[derive(Clone, Copy, Debug)]
pub struct Splice(pub &'static str);

impl Tracer for Splice {
    fn name(&self) -> String {
        format!("ftrace splice ({})", self.0)
    }

    fn why_not(&self, _bed: &Bed) -> Option<String> {
        let path = "/sys/kernel/tracing/trace_clock";
        let clocks = match fs::read_to_string(path) {
            Ok(clocks) => clocks,
            Err(err) => return Some(format!("{path}: {err}")),
        };
        let has = clocks.split_whitespace().any(|clock| clock.trim_matches(['[', ']']) == self.0);
        (!has).then(|| format!("this kernel has no trace clock {}", self.0))
    }

    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        let out = bed.scratch()?;
        let beside = self.beside(bed, wish, out.path())?;
        let said = output(load)?;
        Ok((said, beside.end()?))
    }
}

impl Splice {
    /// Starts it; its files `cpuN.raw` go to a folder.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn beside(&self, bed: &Bed, wish: &Wish, out: &std::path::Path) -> Result<Beside> {
        let (out, kib) = (out.display().to_string(), wish.buffer_kib.to_string());
        let mut arguments = vec!["splice", "--clock", self.0, "--buffer-kib", &kib, "--out", &out];
        arguments.extend(wish.events);
        Beside::start(&wish.place(bed.role(&arguments)))
    }
}
