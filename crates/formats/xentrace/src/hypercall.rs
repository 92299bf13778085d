//! Hypercalls: their names, and their arguments as `pv_hypercall_v2` packs them.

use crate::word::word_at;

/// Bits of word 0 that hold the number.
const OP_MASK: u32 = 0x000f_ffff;

/// `__HYPERVISOR_*` of `xen/include/public/xen.h`, Xen 4.14–4.20.
const NAMES: [&str; 43] = [
    "set_trap_table",
    "mmu_update",
    "set_gdt",
    "stack_switch",
    "set_callbacks",
    "fpu_taskswitch",
    "sched_op_compat",
    "platform_op",
    "set_debugreg",
    "get_debugreg",
    "update_descriptor",
    "",
    "memory_op",
    "multicall",
    "update_va_mapping",
    "set_timer_op",
    "event_channel_op_compat",
    "xen_version",
    "console_io",
    "physdev_op_compat",
    "grant_table_op",
    "vm_assist",
    "update_va_mapping_otherdomain",
    "iret",
    "vcpu_op",
    "set_segment_base",
    "mmuext_op",
    "xsm_op",
    "nmi_op",
    "sched_op",
    "callback_op",
    "xenoprof_op",
    "event_channel_op",
    "physdev_op",
    "hvm_op",
    "sysctl",
    "domctl",
    "kexec_op",
    "tmem_op",
    "argo_op",
    "xenpmu_op",
    "dm_op",
    "hypfs_op",
];

/// `__HYPERVISOR_arch_0`: the first of eight an architecture may use (1 is `paging_domctl_cont` on
/// x86).
const ARCH: [&str; 8] =
    ["arch_0", "arch_1", "arch_2", "arch_3", "arch_4", "arch_5", "arch_6", "arch_7"];

/// Numbers of the hypercalls metrics look at.
pub mod op {
    /// `grant_table_op`.
    pub const GRANT_TABLE_OP: u32 = 20;
    /// `vcpu_op`.
    pub const VCPU_OP: u32 = 24;
    /// `sched_op`.
    pub const SCHED_OP: u32 = 29;
    /// `event_channel_op`.
    pub const EVENT_CHANNEL_OP: u32 = 32;
}

/// A hypercall's name, without `__HYPERVISOR_`.
pub fn name(op: u32) -> Option<&'static str> {
    let known = match op {
        48..=55 => ARCH.get(op as usize - 48),
        _ => NAMES.get(op as usize),
    };
    known.copied().filter(|name| !name.is_empty())
}

/// A hypercall as recorded: its number and the arguments Xen recorded of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hypercall {
    /// Word 0: number and which arguments follow.
    head: u32,
    words: [u32; 6],
}

impl Hypercall {
    /// With these 32-bit arguments, as Xen records them; None for those it does not record.
    pub fn new(op: u32, arguments: [Option<u32>; 6]) -> Hypercall {
        let mut call = Hypercall { head: op & OP_MASK, words: [0; 6] };
        let mut used = 0;
        for (number, argument) in arguments.into_iter().enumerate() {
            if let Some(argument) = argument {
                call.head |= 1 << (20 + 2 * number);
                call.words[used] = argument;
                used += 1;
            }
        }
        call
    }

    #[inline]
    pub(crate) fn from_extra(extra: &[u8]) -> Hypercall {
        let mut call = Hypercall { head: word_at(extra, 0), words: [0; 6] };
        for (to, from) in call.words.iter_mut().zip(extra.chunks_exact(4).skip(1)) {
            *to = word_at(from, 0);
        }
        call
    }

    /// The words of the record: word 0 and the arguments. Those that the bits of word 0 announce.
    pub(crate) fn to_words(self) -> ([u32; 7], usize) {
        let mut words = [0; 7];
        words[0] = self.head;
        words[1..].copy_from_slice(&self.words);
        let used: usize = (0..6).map(|number| width(self.head, number)).sum();
        (words, 1 + used.min(6))
    }

    /// Which hypercall.
    #[inline]
    pub fn op(&self) -> u32 {
        self.head & OP_MASK
    }

    /// Its name, or `hypercall_N`.
    pub fn name(&self) -> std::borrow::Cow<'static, str> {
        match name(self.op()) {
            Some(name) => name.into(),
            None => format!("hypercall_{}", self.op()).into(),
        }
    }

    /// Argument 0 to 5, if it was recorded: `grant_table_op`, `vcpu_op` and `sched_op` have their
    /// command in 0; `mmu_update`, `multicall` and `mmuext_op` the number of requests in 1,
    /// `grant_table_op` in 2.
    pub fn argument(&self, number: u8) -> Option<u64> {
        let (at, width) = place(self.head, number)?;
        let low = *self.words.get(at)?;
        let high = if width == 2 { *self.words.get(at + 1)? } else { 0 };
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// What a grant-table call exchanges pages by, with how many requests: `(command, count)`.
    pub fn grant_requests(&self) -> Option<(u32, u32)> {
        if self.op() != op::GRANT_TABLE_OP {
            return None;
        }
        let cmd = u32::try_from(self.argument(0)?).ok()?;
        Some((cmd, u32::try_from(self.argument(2)?).ok()?))
    }
}

/// Words argument `number` takes: 01b is one, 10b two; 11b is reserved and taken as none.
fn width(head: u32, number: u8) -> usize {
    match head >> (20 + 2 * u32::from(number)) & 3 {
        1 => 1,
        2 => 2,
        _ => 0,
    }
}

/// Where among the words after word 0 an argument is, and how many it takes.
fn place(head: u32, number: u8) -> Option<(usize, usize)> {
    if number > 5 {
        return None;
    }
    let at = (0..number).map(|before| width(head, before)).sum();
    match width(head, number) {
        0 => None,
        width => Some((at, width)),
    }
}

/// An argument of a hypercall record, from its bytes after header and stamp.
pub(crate) fn argument(extra: &[u8], number: u8) -> Option<u64> {
    let (at, width) = place(word_at(extra, 0), number)?;
    if extra.len() < (1 + at + width) * 4 {
        return None;
    }
    let low = word_at(extra, 4 + at * 4);
    let high = if width == 2 { word_at(extra, 8 + at * 4) } else { 0 };
    Some(u64::from(high) << 32 | u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_where_word_0_says() {
        let call = Hypercall::new(op::GRANT_TABLE_OP, [Some(5), None, Some(32), None, None, None]);
        assert_eq!(call.grant_requests(), Some((5, 32)));
        let (words, used) = call.to_words();
        assert_eq!(words[..used], [1 << 20 | 1 << 24 | 20, 5, 32]);
        assert_eq!(call.argument(1), None);
        assert_eq!(call.name(), "grant_table_op");
    }

    #[test]
    fn arguments_of_64_bits() {
        let words = [2 << 20 | 1 << 22 | 24_u32, 0x9, 0x1, 7];
        let extra: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(argument(&extra, 0), Some(0x1_0000_0009));
        assert_eq!(argument(&extra, 1), Some(7));
        assert_eq!(argument(&extra[..12], 1), None, "cut off");
        assert_eq!(Hypercall::from_extra(&extra).argument(0), Some(0x1_0000_0009));
    }

    #[test]
    fn names() {
        assert_eq!(name(29), Some("sched_op"));
        assert_eq!(name(11), None);
        assert_eq!(name(48), Some("arch_0"));
        assert_eq!(name(1000), None);
    }
}
