#![doc = include_str!("README.md")]

use super::{Bed, Machine, Platform, Shape};
use crate::{Fault, Kind, Refusal};

/// A domain with a disk.
#[derive(Debug)]
pub(super) struct XenDomu {
    name: &'static str,
    about: &'static str,
}

/// With a physical disk.
pub(super) const PHYS: XenDomu =
    XenDomu { name: "xen-domu-phys", about: "a Xen domain with a physical disk (phy:)" };

/// With a file of its dom0 as its disk.
pub(super) const LOOP: XenDomu =
    XenDomu { name: "xen-domu-loop", about: "a Xen domain with a file in dom0 as its disk (loop)" };

impl Platform for XenDomu {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn can_run(&self, _: &Shape) -> Result<(), Refusal> {
        let why = "this version cannot give a domain a root file system with this host's programs";
        Err(Refusal::new(Kind::NotHere, format!("platform {}", self.name), why)
            .mend("xen-dom0 measures what Xen costs its first domain"))
    }

    fn open(&self, shape: &Shape, _: &Bed) -> Result<Box<dyn Machine>, Fault> {
        // Nobody opens what refuses; who does gets the same reason.
        self.can_run(shape)?;
        Err(Fault::failed(format!("platform {} is not driven", self.name)))
    }
}
