//! `irq_vectors:*` (`arch/x86/include/asm/trace/irq_vectors.h`): one class of events, a pair per source.

use super::fields::{Decode, Fields, decoder};
use transect_model::{event::CoreEvent, interrupt::VectorSource};

pub(super) fn entry(f: &Fields<'_>, source: VectorSource) -> Option<Decode> {
    let vector = f.int(&["vector"])?;
    decoder(move |p| Some(CoreEvent::VectorEntry { source, vector: vector.u32(p)? }))
}

pub(super) fn exit(f: &Fields<'_>, source: VectorSource) -> Option<Decode> {
    let vector = f.int(&["vector"])?;
    decoder(move |p| Some(CoreEvent::VectorExit { source, vector: vector.u32(p)? }))
}
