//! By what rows are found.

use rustc_hash::FxHashMap;
use transect_model::ids::{CpuId, MachineId, VcpuId};

pub(super) type Map<K, V> = FxHashMap<K, V>;
pub(super) type Cpu = (MachineId, CpuId);
pub(super) type VcpuOf = (MachineId, VcpuId);
