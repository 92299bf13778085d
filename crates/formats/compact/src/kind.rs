//! The kinds of records: one flat table, from which the file header's list, the README's table
//! and the skipping of unknown kinds come.
//!
//! Kind numbers and layouts are shared with the BPF programs (`bpf/`) and the guest module: a
//! number is never given a new meaning, new kinds get new numbers.

/// Number of kinds a record's 6 bits can tell apart.
pub const KINDS: usize = 64;

/// What is known of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// The number in bits 0..=5 of a record's first word.
    pub kind: u8,
    /// Its name, as in the file header.
    pub name: &'static str,
    /// Length of a record in 64-bit words, 1 to 3.
    pub words: u8,
    /// Layout of `a` (from its bit 0 upwards, name:bits) and of the words after it.
    pub fields: &'static str,
}

macro_rules! kinds {
    ($($number:literal $name:ident $words:literal $fields:literal;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, ", stringify!($words), " words: ", $fields)]
            pub const $name: u8 = $number;
        )*
        /// Every kind, by number.
        pub const TABLE: &[KindInfo] = &[
            $(KindInfo { kind: $number, name: stringify!($name), words: $words, fields: $fields },)*
        ];
    };
}

kinds! {
    0 PAD 1 "whole word 0; fills the end of a chunk";
    1 SYNC 3 "current:22 flags:12 (bit 0 first of the stream, bit 1 side log) | w1 ns:64 | w2 lost:64";
    2 TIME 2 "0 | w1 ns:64";
    3 LOST 3 "count:34 | w1 first_ns:64 | w2 last_ns:64";
    4 SWITCH 1 "next:22 prev_state:4 next_prio:8";
    5 SWITCH_FROM 2 "next:22 prev_state:4 next_prio:8 | w1 prev:32 prev_prio:32";
    6 WAKING 1 "tid:22 target_cpu:12";
    7 WAKEUP_NEW 1 "tid:22 target_cpu:12";
    8 MIGRATE 2 "tid:22 dest_cpu:12 | w1 orig_cpu:64";
    9 FORK 2 "child:22 | w1 child_tgid:32 parent:32";
    10 EXEC 2 "tid:22 | w1 old_tid:64";
    11 EXIT 1 "tid:22";
    12 NAME 3 "tid:22 | w1 w2 comm:128";
    13 KVM_ENTRY 1 "vcpu:16";
    14 KVM_EXIT 3 "reason:16 vcpu:16 reason_bit_31:1 other_numbering:1 | w1 rip:64 | w2 info1:64";
    15 KVM_EXIT_S 2 "reason:12 vcpu:12 info1:10 | w1 rip:64";
    16 KVM_EXIT_ENTRY 3 "reason:12 vcpu:12 spare:10 | w1 rip:64 | w2 dur:32 info1:32";
    17 KVM_EXIT_ENTRY_S 2 "reason:12 vcpu:12 info1:10 | w1 dur:32 rip_low:32";
    18 KVM_HYPERCALL 1 "nr:34";
    19 KVM_HYPERCALL_A 3 "nr:34 | w1 arg0:64 | w2 arg1:64";
    20 MORE 3 "nr_high:30 | w1 arg2:64 | w2 arg3:64 (follows KVM_HYPERCALL_A in the same chunk)";
    21 KVM_USERSPACE_EXIT 1 "reason:16 errno:16";
    22 KVM_HALT_POLL 2 "vcpu:16 | w1 new_ns:32 old_ns:32";
    23 KVM_VCPU_WAKEUP 1 "ns:32 waited:1 valid:1";
    24 KVM_PIO 1 "access:2 size_log2:2 port:16 count:14";
    25 KVM_MMIO 2 "access:2 len:8 | w1 gpa:64";
    26 KVM_FAST_MMIO 2 "0 | w1 gpa:64";
    27 KVM_PAGE_FAULT 2 "error_code:34 | w1 gpa:64";
    28 KVM_PAGE_FAULT_L 3 "0 | w1 gpa:64 | w2 error_code:64";
    29 KVM_SET_IRQ 1 "gsi:32 level:1";
    30 KVM_MSI 3 "0 | w1 address:64 | w2 data:64";
    31 KVM_INJ_VIRQ 1 "vector:32";
    32 KVM_TSC_OFFSET 3 "vcpu:16 | w1 previous:64 | w2 next:64";
    33 IRQ_ENTRY 1 "irq:32";
    34 IRQ_EXIT 1 "irq:32 handled:1";
    35 IRQ 1 "irq:13 handled:1 dur:20";
    36 SOFTIRQ_RAISE 1 "vector:4";
    37 SOFTIRQ_ENTRY 1 "vector:4";
    38 SOFTIRQ_EXIT 1 "vector:4";
    39 SOFTIRQ 1 "vector:4 dur:30";
    40 SYS_ENTER 1 "nr:32";
    41 SYS_EXIT 2 "nr:32 | w1 ret:64";
    42 SYS_EXIT_S 1 "nr:10 ret:24";
    43 SYSCALL 2 "nr:10 dur:24 | w1 ret:64";
    44 SYSCALL_S 1 "nr:9 dur:15 ret_plus_64:10";
    45 BLOCK_INSERT 3 "sectors:24 op:8 | w1 sector:64 | w2 dev:32 0:32";
    46 BLOCK_ISSUE 3 "sectors:24 op:8 | w1 sector:64 | w2 dev:32 0:32";
    47 BLOCK_COMPLETE 3 "sectors:24 op:8 | w1 sector:64 | w2 dev:32 error:32";
    48 NET_XMIT 2 "bytes:20 ifindex:14 | w1 skb:56 code:8";
    49 NET_RECEIVE 2 "bytes:20 ifindex:14 | w1 skb:56 0:8";
    50 DEVICE_NAME 3 "ifindex:14 | w1 w2 name:128";
    51 WORK_START 3 "0 | w1 work:64 | w2 function:64";
    52 WORK_END 3 "0 | w1 work:64 | w2 function:64";
    53 CURRENT 1 "tid:22";
    54 KVM_EXIT_R 1 "slot:4";
    55 KVM_EXIT_ENTRY_R 1 "slot:4 dur:30";
    56 KVM_INJ_ENTRY 1 "vector:8 vcpu:8 dur:18";
    57 WAKING_IN 1 "tid:22 target_cpu:10 context:2";
    58 VECTOR_ENTRY 1 "vector:8 source:4";
    59 VECTOR_EXIT 1 "vector:8 source:4";
    60 VECTOR 1 "vector:8 source:4 dur:22";
    61 KVM_ACCEPT 1 "vector:8 vcpu:16 mode:3 hardware:1";
    62 OTHER 3 "event:5 x:29 | w1 first:64 | w2 second:64";
}

/// Words per record of each kind; 0 for numbers that have no meaning yet.
pub const WORDS: [u8; KINDS] = {
    let mut words = [0; KINDS];
    let mut at = 0;
    while at < TABLE.len() {
        words[TABLE[at].kind as usize] = TABLE[at].words;
        at += 1;
    }
    words
};

/// The table's row of a kind.
pub fn info(kind: u8) -> Option<&'static KindInfo> {
    TABLE.get(usize::from(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_number_and_are_one_to_three_words() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(usize::from(row.kind), at, "{}", row.name);
            assert!((1..=3).contains(&row.words), "{}", row.name);
        }
    }

    /// The layout text is what other readers go by: its bits must fit, and its words must be
    /// those of the record.
    #[test]
    fn layouts_fit_their_words() {
        for row in TABLE.iter().filter(|row| row.kind != PAD) {
            let parts: Vec<&str> = row.fields.split(" | ").collect();
            let bits = |part: &str| -> u32 {
                part.split_whitespace()
                    .filter_map(|word| word.split_once(':')?.1.parse::<u32>().ok())
                    .sum()
            };
            assert!(bits(parts[0]) <= 34, "{}: a has {} bits", row.name, bits(parts[0]));
            let after: u32 = parts[1..].iter().map(|part| bits(part)).sum();
            assert!(after <= 64 * (u32::from(row.words) - 1), "{}", row.name);
            let named: usize = parts[1..]
                .iter()
                .map(|part| part.split_whitespace().filter(|w| *w == "w1" || *w == "w2").count())
                .sum();
            assert_eq!(named, usize::from(row.words) - 1, "{}", row.name);
        }
    }
}
