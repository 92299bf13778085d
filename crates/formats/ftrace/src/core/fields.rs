//! Look-up of an event's fields, from which its decoder is made.

use crate::{
    access::{CommAccess, IntAccess},
    format::EventFormat,
    value::Machine,
};
use std::sync::Arc;
use transect_model::{event::CoreEvent, interrupt::Context};

/// Decodes records of one event.
pub(super) type Decode = Arc<dyn Fn(&[u8]) -> Option<CoreEvent> + Send + Sync>;

/// Field look-up of one event while its decoder is compiled.
pub(super) struct Fields<'a> {
    pub(super) event: &'a EventFormat,
    pub(super) machine: Machine,
}

impl Fields<'_> {
    pub(super) fn int(&self, names: &[&str]) -> Option<IntAccess> {
        IntAccess::new(self.event, names, self.machine)
    }

    /// A field that every event has.
    pub(super) fn common(&self, name: &str) -> Option<IntAccess> {
        IntAccess::common(self.event, name, self.machine)
    }

    /// The context that a record's flags tell; a converted text may have none.
    pub(super) fn context(&self) -> impl Fn(&[u8]) -> Option<Context> + Send + Sync + use<> {
        let flags = self.common("common_flags");
        move |p| {
            let flags = flags.and_then(|flags| flags.u32(p))?;
            Some(Context::from_common_flags(flags.to_le_bytes()[0]))
        }
    }

    pub(super) fn comm(&self, names: &[&str]) -> Option<CommAccess> {
        CommAccess::new(self.event, names, self.machine)
    }
}

/// Boxes a decoder; spares every family the type's spelling.
pub(super) fn decoder(
    decode: impl Fn(&[u8]) -> Option<CoreEvent> + Send + Sync + 'static,
) -> Option<Decode> {
    Some(Arc::new(decode))
}
