//! What an interval is: state, whose, and why, as a number.
//!
//! Each file of tiles numbers its keys by itself, in the order in which its rows name them; a
//! [`crate::View`] joins the files' keys and gives them their final numbers, in the order of the
//! files. So two builds give the same numbers, however many threads made the files.

use rustc_hash::FxHashMap;
use transect_model::state::{DomainState, EffectiveState, ThreadState, VcpuState};

/// No key: nothing known. It is never stored.
pub const NOTHING: u32 = 0;
/// What a bucket has besides its longest keys.
pub const OTHERS: u32 = 1;
/// Keys that every recording has.
pub(crate) const RESERVED: u32 = 2;

/// Colour and pattern of a key: the same word means the same on every track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "each variant is the state of that name in docs/reference/states.md"
)]
pub enum Class {
    Guest,
    Exit,
    User,
    Hypercall,
    Trap,
    Halted,
    HaltPoll,
    Blocked,
    Preempted,
    Waking,
    Running,
    Runnable,
    Sleeping,
    IoWait,
    Irq,
    Softirq,
    Syscall,
    Vcpu,
    Thread,
    Idle,
    Offline,
    Unknown,
    Lost,
    Block,
    Net,
    Others,
}

impl Class {
    /// Every class, in the order of their numbers in files.
    pub const ALL: &[Class] = &[
        Class::Guest,
        Class::Exit,
        Class::User,
        Class::Hypercall,
        Class::Trap,
        Class::Halted,
        Class::HaltPoll,
        Class::Blocked,
        Class::Preempted,
        Class::Waking,
        Class::Running,
        Class::Runnable,
        Class::Sleeping,
        Class::IoWait,
        Class::Irq,
        Class::Softirq,
        Class::Syscall,
        Class::Vcpu,
        Class::Thread,
        Class::Idle,
        Class::Offline,
        Class::Unknown,
        Class::Lost,
        Class::Block,
        Class::Net,
        Class::Others,
    ];

    /// The word in the keys' table.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Guest => "guest",
            Class::Exit => "exit",
            Class::User => "user",
            Class::Hypercall => "hypercall",
            Class::Trap => "trap",
            Class::Halted => "halted",
            Class::HaltPoll => "halt_poll",
            Class::Blocked => "blocked",
            Class::Preempted => "preempted",
            Class::Waking => "waking",
            Class::Running => "running",
            Class::Runnable => "runnable",
            Class::Sleeping => "sleeping",
            Class::IoWait => "io_wait",
            Class::Irq => "irq",
            Class::Softirq => "softirq",
            Class::Syscall => "syscall",
            Class::Vcpu => "vcpu",
            Class::Thread => "thread",
            Class::Idle => "idle",
            Class::Offline => "offline",
            Class::Unknown => "unknown",
            Class::Lost => "lost",
            Class::Block => "block",
            Class::Net => "net",
            Class::Others => "others",
        }
    }

    /// Is it time in which nothing was done and nothing waited for a CPU, or of which nothing is
    /// known? It does not make a track a busy one.
    pub fn is_rest(self) -> bool {
        use Class::{Blocked, Halted, Idle, IoWait, Offline, Sleeping, Unknown};
        matches!(self, Halted | Blocked | Sleeping | IoWait | Idle | Offline | Unknown)
    }

    /// Of a vCPU's state; none for a word that this program does not know.
    pub fn of_vcpu_state(state: Option<VcpuState>) -> Class {
        match state {
            Some(VcpuState::Guest) => Class::Guest,
            Some(VcpuState::Exit) => Class::Exit,
            Some(VcpuState::User) => Class::User,
            Some(VcpuState::Hypercall) => Class::Hypercall,
            Some(VcpuState::Trap) => Class::Trap,
            Some(VcpuState::Halted) => Class::Halted,
            Some(VcpuState::HaltPoll) => Class::HaltPoll,
            Some(VcpuState::Blocked) => Class::Blocked,
            Some(VcpuState::Preempted) => Class::Preempted,
            Some(VcpuState::Waking) => Class::Waking,
            Some(VcpuState::Running) => Class::Running,
            Some(VcpuState::Offline) => Class::Offline,
            Some(VcpuState::Unknown) | None => Class::Unknown,
        }
    }

    /// Of a thread's state, and of where it really was while its kernel had it running.
    pub fn of_thread_state(
        state: Option<ThreadState>,
        effective: Option<EffectiveState>,
        reason: &str,
    ) -> Class {
        match state {
            Some(ThreadState::Running) => match effective {
                Some(EffectiveState::VcpuPreempted) => Class::Preempted,
                Some(EffectiveState::ExitHandling) => Class::Exit,
                Some(EffectiveState::VcpuHalted) => Class::Halted,
                Some(EffectiveState::Unknown) => Class::Unknown,
                Some(EffectiveState::Running) | None => Class::Running,
            },
            Some(ThreadState::Runnable) => Class::Runnable,
            Some(ThreadState::Blocked) if reason == "D" => Class::IoWait,
            Some(ThreadState::Blocked) => Class::Sleeping,
            Some(ThreadState::Unknown) | None => Class::Unknown,
        }
    }

    /// Of what the vCPUs of a domain do together.
    pub fn of_domain_state(state: Option<DomainState>) -> Class {
        match state {
            Some(DomainState::Blocked) => Class::Blocked,
            Some(DomainState::PartialRun | DomainState::FullRun) => Class::Running,
            Some(DomainState::PartialContention | DomainState::FullContention) => Class::Runnable,
            Some(DomainState::ConcurrencyHazard) => Class::Preempted,
            Some(DomainState::Unknown) | None => Class::Unknown,
        }
    }
}

/// A key as a file of tiles knows it: numbers and the file's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawKey {
    pub(crate) class: Class,
    /// The state, a word of the file.
    pub(crate) state: u32,
    /// Why, a word of the file; 0 is the empty word.
    pub(crate) reason: u32,
    pub(crate) machine: Option<u32>,
    pub(crate) vcpu: Option<u32>,
    pub(crate) tid: Option<i32>,
}

/// A file's keys, and the words in them, numbered as they come; keys from [`RESERVED`] on.
#[derive(Debug)]
pub(crate) struct Interner {
    words: Vec<String>,
    word_numbers: FxHashMap<String, u32>,
    keys: Vec<RawKey>,
    key_numbers: FxHashMap<RawKey, u32>,
    last: Option<(RawKey, u32)>,
}

impl Default for Interner {
    fn default() -> Self {
        let mut made = Interner {
            words: Vec::new(),
            word_numbers: FxHashMap::default(),
            keys: Vec::new(),
            key_numbers: FxHashMap::default(),
            last: None,
        };
        made.word("");
        made
    }
}

impl Interner {
    /// Number of a word.
    pub(crate) fn word(&mut self, text: &str) -> u32 {
        if let Some(number) = self.word_numbers.get(text) {
            return *number;
        }
        let number = number_of(self.words.len());
        self.words.push(text.to_owned());
        self.word_numbers.insert(text.to_owned(), number);
        number
    }

    /// Number of a key.
    #[inline]
    pub(crate) fn key(&mut self, key: RawKey) -> u32 {
        match self.last {
            Some((last, number)) if last == key => number,
            _ => self.find(key),
        }
    }

    fn find(&mut self, key: RawKey) -> u32 {
        let next = number_of(self.keys.len()).saturating_add(RESERVED);
        let number = *self.key_numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
        }
        self.last = Some((key, number));
        number
    }

    /// Is a key's time none of work?
    #[inline]
    pub(crate) fn is_rest(&self, key: u32) -> bool {
        let at = key.checked_sub(RESERVED).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.keys.get(at)).is_some_and(|key| key.class.is_rest())
    }

    /// All words, all keys.
    pub(crate) fn into_parts(self) -> (Vec<String>, Vec<RawKey>) {
        (self.words, self.keys)
    }
}

/// No table holds 2³² different words.
fn number_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
