//! What a session's sink gets, and what is counted on the way to it.

use super::{
    link::Heard,
    outcome::Outcome,
    shared::Shared,
    sink::{Gap, GuestSink, SinkError},
};
use crate::{
    exchange::Bracket,
    proto::{CpuStats, Stats, Words},
    stamp::TscReading,
};
use std::{collections::BTreeMap, sync::atomic::Ordering};

/// The sink, and what is counted on the way to it.
pub(super) struct Books<'a> {
    pub(super) sink: Box<dyn GuestSink>,
    pub(super) shared: &'a Shared,
    pub(super) outcome: Outcome,
    /// Counters of the link's CPUs; the kernel starts them at 0 for each instance.
    pub(super) cpus: BTreeMap<u32, CpuStats>,
}

impl Books<'_> {
    pub(super) fn hear(&mut self, heard: Heard<'_>) -> Result<(), SinkError> {
        match heard {
            Heard::Data { cpu, pages } => {
                self.count_bytes(pages.len());
                self.sink.pages(cpu, pages)
            }
            Heard::Words(slice) => {
                self.count_bytes(slice.words.len());
                let events = self.sink.words(&slice)?;
                self.outcome.events = self.outcome.events.saturating_add(events);
                self.show_counts();
                Ok(())
            }
            Heard::Stats(stats) => {
                self.count(&stats);
                Ok(())
            }
            other => self.hear_bracket(other),
        }
    }

    /// Before recording and after it, only clocks matter.
    pub(super) fn hear_bracket(&mut self, heard: Heard<'_>) -> Result<(), SinkError> {
        match heard {
            Heard::Bracket(bracket) => {
                self.count_bracket(&bracket);
                self.sink.bracket(&bracket)
            }
            Heard::Reading(reading) => self.sink.reading(&reading),
            _ => Ok(()),
        }
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.outcome.bytes += bytes as u64;
        self.shared.bytes.store(self.outcome.bytes, Ordering::Relaxed);
    }

    fn count_bracket(&mut self, bracket: &Bracket) {
        self.outcome.brackets += 1;
        let best = self.outcome.best_round_trip;
        self.outcome.best_round_trip = match (best, bracket.round_trip()) {
            (Some(best), Some(this)) => Some(best.min(this)),
            (best, this) => best.or(this),
        };
    }

    fn count(&mut self, stats: &Stats) {
        for cpu in &stats.cpus {
            self.cpus.insert(cpu.cpu, *cpu);
        }
        self.show_counts();
        self.outcome.agent_cpu_ns = self.outcome.agent_cpu_ns.max(stats.agent_cpu_ns);
    }

    fn show_counts(&self) {
        let (events, lost) = self.link_counts();
        self.shared.events.store(self.outcome.events.saturating_add(events), Ordering::Relaxed);
        self.shared.lost.store(self.outcome.lost.saturating_add(lost), Ordering::Relaxed);
    }

    fn link_counts(&self) -> (u64, u64) {
        // The numbers are the guest's word: whatever it says must not overflow anything here.
        self.cpus.values().fold((0_u64, 0_u64), |(events, lost), cpu| {
            let lost_here = cpu.overrun.saturating_add(cpu.dropped);
            (events.saturating_add(cpu.events), lost.saturating_add(lost_here))
        })
    }

    /// The link's counters are final: the next link's begin at 0.
    pub(super) fn close_link(&mut self) {
        let (events, lost) = self.link_counts();
        self.outcome.events = self.outcome.events.saturating_add(events);
        self.outcome.lost = self.outcome.lost.saturating_add(lost);
        self.cpus.clear();
    }

    pub(super) fn gap(&mut self, gap: Gap) -> Result<(), SinkError> {
        self.outcome.gaps += 1;
        self.sink.gap(&gap)
    }
}

/// What arrived before the sink was told to begin: the brackets of the first burst, and what came
/// in the same read as Started.
#[derive(Default)]
pub(super) struct Early {
    pub(super) brackets: Vec<Bracket>,
    readings: Vec<TscReading>,
    pages: Vec<(u32, Vec<u8>)>,
    words: Vec<(Words<'static>, Vec<u8>)>,
    pub(super) stats: Vec<Stats>,
}

impl Early {
    pub(super) fn hear(&mut self, heard: Heard<'_>) -> Result<(), SinkError> {
        match heard {
            Heard::Bracket(bracket) => self.brackets.push(bracket),
            Heard::Reading(reading) => self.readings.push(reading),
            Heard::Data { cpu, pages } => self.pages.push((cpu, pages.to_vec())),
            Heard::Words(slice) => {
                let Words { cpu, side, position, sync_ns, lost, words } = slice;
                let place = Words { cpu, side, position, sync_ns, lost, words: &[] };
                self.words.push((place, words.to_vec()));
            }
            Heard::Stats(stats) => self.stats.push(stats),
            Heard::Welcome(_) | Heard::Meta { .. } | Heard::Started(_) | Heard::Stopped => {}
        }
        Ok(())
    }

    pub(super) fn hand_on(self, books: &mut Books<'_>) -> Result<(), SinkError> {
        for bracket in self.brackets {
            books.hear(Heard::Bracket(bracket))?;
        }
        for reading in self.readings {
            books.hear(Heard::Reading(reading))?;
        }
        for (place, words) in self.words {
            books.hear(Heard::Words(Words { words: &words, ..place }))?;
        }
        for (cpu, pages) in self.pages {
            books.hear(Heard::Data { cpu, pages: &pages })?;
        }
        for stats in self.stats {
            books.hear(Heard::Stats(stats))?;
        }
        Ok(())
    }
}
