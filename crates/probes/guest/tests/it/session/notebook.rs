//! A sink that notes everything a session tells, and can be slow or full.

use crate::session::{
    machine::{FakeMachine, PAGE, number},
    mono,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    thread,
    time::Duration,
};
use transect_guest::{
    exchange::Bracket,
    proto::CpuStats,
    serve::MetaFile,
    session::{Beginning, Gap, GuestSink, SinkError},
    stamp::TscReading,
};

/// Boot id, continues, names and sizes of descriptive files.
type Begun = (String, bool, Vec<(String, usize)>);

/// Everything a session told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) begun: Vec<Begun>,
    /// When each beginning and end was told.
    pub(crate) begun_at: Vec<u64>,
    pub(crate) ended_at: Vec<u64>,
    pub(crate) pages: BTreeMap<u32, Vec<u64>>,
    pub(crate) brackets: Vec<Bracket>,
    pub(crate) readings: usize,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) ends: Vec<(Vec<MetaFile>, Vec<CpuStats>)>,
    pub(crate) notes: Vec<String>,
    /// Writes that took their time.
    pub(crate) blocked: u32,
}

impl Told {
    /// Each CPU's pages in order, and together (with `missing` allowed) every number once.
    pub(crate) fn check_pages(&self, may_miss: bool) {
        let mut all: Vec<u64> = Vec::new();
        for (cpu, numbers) in &self.pages {
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "cpu {cpu} out of order");
            assert!(numbers.iter().all(|number| number % 2 == u64::from(*cpu)));
            all.extend(numbers);
        }
        all.sort_unstable();
        if !may_miss {
            assert!(all.iter().copied().eq(0..all.len() as u64), "pages are missing");
        }
    }
}

/// A disk that takes its time over one write.
#[derive(Clone)]
pub(crate) struct SlowDisk {
    pub(crate) machine: FakeMachine,
    /// Over one that was made after Stop, or while recording?
    pub(crate) at_end: bool,
    pub(crate) time: Duration,
}

#[derive(Clone, Default)]
pub(crate) struct Notebook {
    pub(crate) told: Arc<Mutex<Told>>,
    pub(crate) fails_at_page: Option<usize>,
    pub(crate) slow: Option<SlowDisk>,
}

impl GuestSink for Notebook {
    fn begin(&mut self, b: &Beginning<'_>) -> Result<(), SinkError> {
        let meta = b.meta.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect();
        let mut told = self.told.lock().unwrap();
        told.begun_at.push(mono());
        told.begun.push((b.facts.boot_id.raw_for_storage().to_owned(), b.continues, meta));
        Ok(())
    }

    fn pages(&mut self, cpu: u32, pages: &[u8]) -> Result<(), SinkError> {
        assert_eq!(pages.len() % PAGE, 0);
        let mut told = self.told.lock().unwrap();
        let kept = told.pages.entry(cpu).or_default();
        kept.extend(pages.chunks(PAGE).map(number));
        let (count, last) = (kept.len(), kept.last().copied().unwrap_or_default());
        if self.fails_at_page.is_some_and(|limit| count >= limit) {
            return Err("disk full".into());
        }
        let Some(slow) = &self.slow else { return Ok(()) };
        let is_it = match slow.at_end {
            true => last >= slow.machine.first_at_end.load(SeqCst),
            false => count >= 50,
        };
        if is_it && told.blocked == 0 {
            told.blocked = 1;
            drop(told);
            thread::sleep(slow.time);
        }
        Ok(())
    }

    fn reading(&mut self, _: &TscReading) -> Result<(), SinkError> {
        self.told.lock().unwrap().readings += 1;
        Ok(())
    }

    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError> {
        let mut told = self.told.lock().unwrap();
        assert!(!told.begun.is_empty(), "a bracket of a guest that is not known yet");
        told.brackets.push(*bracket);
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError> {
        self.told.lock().unwrap().gaps.push(*gap);
        Ok(())
    }

    fn end(&mut self, meta: &[MetaFile], cpus: &[CpuStats]) -> Result<(), SinkError> {
        let mut told = self.told.lock().unwrap();
        told.ended_at.push(mono());
        told.ends.push((meta.to_vec(), cpus.to_vec()));
        Ok(())
    }

    fn note(&mut self, text: &str) {
        self.told.lock().unwrap().notes.push(text.to_owned());
    }
}
