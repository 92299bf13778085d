//! The maps of the object, by name.

use crate::BpfError;
use libbpf_rs::{MapCore as _, Object};

pub(crate) fn map_named<'obj>(
    object: &'obj Object,
    name: &str,
) -> Result<libbpf_rs::Map<'obj>, BpfError> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| BpfError::Plan(format!("the BPF object has no map {name}")))
}
