//! Counting events in words, without decoding them: for whoever passes slices on.

use crate::{
    kind::{
        self, CURRENT, DEVICE_NAME, IRQ, KVM_EXIT_ENTRY, KVM_EXIT_ENTRY_R, KVM_EXIT_ENTRY_S,
        KVM_INJ_ENTRY, LOST, MORE, PAD, SOFTIRQ, SYNC, SYSCALL, SYSCALL_S, TIME, VECTOR,
    },
    record::WORD_BYTES,
};

/// Events per record of each kind: folded records tell two, housekeeping none.
const EVENTS: [u64; kind::KINDS] = {
    let mut events = [1; kind::KINDS];
    let none = [PAD, SYNC, TIME, LOST, MORE, CURRENT, DEVICE_NAME];
    let kvm = [KVM_EXIT_ENTRY, KVM_EXIT_ENTRY_S, KVM_EXIT_ENTRY_R, KVM_INJ_ENTRY];
    let two = [kvm[0], kvm[1], kvm[2], kvm[3], IRQ, SOFTIRQ, SYSCALL, SYSCALL_S, VECTOR];
    let mut at = 0;
    while at < none.len() {
        events[none[at] as usize] = 0;
        at += 1;
    }
    at = 0;
    while at < two.len() {
        events[two[at] as usize] = 2;
        at += 1;
    }
    events
};

/// Events that a slice of whole records tells, folded ones counted as the two they are. About a
/// nanosecond per record. Kinds of later versions count as one word and one event.
pub fn count_events(words: &[u8]) -> u64 {
    let words = words.as_chunks::<WORD_BYTES>().0;
    let (mut at, mut events) = (0, 0);
    while let Some(word) = words.get(at) {
        let kind = usize::from(word[0] & 63);
        events += EVENTS[kind];
        at += usize::from(kind::WORDS[kind].max(1));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LogId, LogWriter, Slice};
    use transect_model::{
        event::{Comm, CoreEvent},
        ids::{CpuId, Tid},
    };

    #[test]
    fn folded_records_are_two_events() {
        let mut counted = 0;
        let mut sink = |slice: Slice<'_>| -> Result<(), std::convert::Infallible> {
            counted += count_events(slice.words);
            Ok(())
        };
        let mut log = LogWriter::new(LogId { cpu: CpuId(0), side: 0 });
        let mut ts = 1_000;
        for round in 0..10_000 {
            for event in [
                CoreEvent::SyscallEnter { nr: 39 },
                CoreEvent::SyscallExit { nr: 39, ret: round },
                CoreEvent::IrqEntry { irq: 3, name: Comm::default() },
                CoreEvent::SchedExec { tid: Tid(1), old_tid: Tid(1) },
                CoreEvent::IrqExit { irq: 3, handled: true },
            ] {
                ts += 100;
                log.event(ts, Tid(1), &event, &mut sink).unwrap();
            }
        }
        log.finish(&mut sink).unwrap();
        assert_eq!(counted, 50_000);
    }
}
