//! What of a recording was not kept, in words.

use crate::manifest::{Manifest, NotKept};
use transect_model::ids::MachineKind;
use transect_model::people::human_count;

/// CPUs named one by one in a message.
const MOST_CPUS: usize = 8;

impl Manifest {
    /// "15,691 events of CPU 0, the last events of CPU 1 of web"; none if everything was kept.
    pub fn not_kept_text(&self) -> Option<String> {
        let name = |entry: &NotKept| {
            let machine = self.machines.iter().find(|machine| machine.id == entry.machine_id);
            let guest = machine.filter(|machine| machine.kind == MachineKind::Guest);
            let of = guest.map_or_else(String::new, |guest| format!(" of {}", guest.name));
            format!("CPU {}{of}", entry.cpu.0)
        };
        let each = self.not_kept.iter().map(|entry| match entry.count {
            Some(count) => format!("{} events of {}", human_count(count), name(entry)),
            None => format!("the last events of {}", name(entry)),
        });
        let mut each: Vec<_> = each.collect();
        if each.len() > MOST_CPUS {
            let rest = each.len() - MOST_CPUS;
            each.truncate(MOST_CPUS);
            each.push(format!("and of {rest} more CPUs"));
        }
        (!each.is_empty()).then(|| each.join(", "))
    }
}
