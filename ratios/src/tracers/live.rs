//! The counting programs of live faces (see the role `live`).

use super::tracer::{Tracer, Wish};
use crate::{
    bed::{Bed, output},
    process::Beside,
    roles::Programs,
    traced::Traced,
};
use anyhow::Result;
use clap::ValueEnum;

/// The counting programs: those of the wish's events, or all.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// What they do.
    pub programs: Programs,
    /// Is every one of them attached, and not only those of the events?
    pub all: bool,
}

impl Tracer for Live {
    fn name(&self) -> String {
        let all = if self.all { ", all programs" } else { "" };
        match self.programs {
            Programs::Count => format!("live windows{all}"),
            Programs::Empty => format!("empty live programs{all}"),
        }
    }

    fn why_not(&self, _bed: &Bed) -> Option<String> {
        transect_bpf::can_run().err().map(|why| why.to_string())
    }

    fn share(&self) -> Option<f64> {
        None
    }

    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        let programs = self.programs.to_possible_value();
        let programs = programs.as_ref().map_or("count", |value| value.get_name());
        let mut arguments = vec!["live", "--programs", programs];
        if !self.all {
            arguments.extend(wish.events);
        }
        let beside = Beside::start(&wish.place(bed.role(&arguments)))?;
        let said = output(load)?;
        Ok((said, beside.end()?))
    }
}
