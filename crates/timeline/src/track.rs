//! Tracks: the rows of the timeline, and what each is about.

/// What a track shows. The order is that of their numbers in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Group: one machine.
    Machine,
    /// Group: its CPUs.
    Cpus,
    /// Who has a CPU (`cpu_slices`).
    Cpu,
    /// Inside a CPU's vCPU: the guest thread that ran there.
    CpuGuest,
    /// Interrupt handlers of a CPU (`irqs`).
    Irq,
    /// What a domain's vCPUs do together (`domain_states`).
    Domain,
    /// Group: its vCPUs.
    Vcpus,
    /// A vCPU's states (`vcpu_states`).
    Vcpu,
    /// A vCPU's exits by reason (`exits`).
    Exits,
    /// Group: its threads.
    Threads,
    /// Group: the threads of one control group, such as a container's.
    Cgroup,
    /// A thread's states, of a guest's thread where it really was (`thread_states`).
    Thread,
    /// A thread's system calls (`syscalls`).
    Syscall,
    /// Group: what goes in and out.
    Io,
    /// Requests to a block device (`block_io`).
    Block,
    /// Packets of a network device (`net_io`).
    Net,
    /// Work items of a CPU (`work_items`).
    Work,
    /// Group: numbers.
    Counters,
    /// A number that holds until the next (`counters`, `windows`).
    Counter,
    /// Group: events.
    Events,
    /// Events of one name, as instants (`events/`).
    Ticks,
    /// Events that were lost, and the time they hide (`lost`).
    Lost,
}

impl Kind {
    /// Every kind, in the order of their numbers in files.
    pub const ALL: &[Kind] = &[
        Kind::Machine,
        Kind::Cpus,
        Kind::Cpu,
        Kind::CpuGuest,
        Kind::Irq,
        Kind::Domain,
        Kind::Vcpus,
        Kind::Vcpu,
        Kind::Exits,
        Kind::Threads,
        Kind::Cgroup,
        Kind::Thread,
        Kind::Syscall,
        Kind::Io,
        Kind::Block,
        Kind::Net,
        Kind::Work,
        Kind::Counters,
        Kind::Counter,
        Kind::Events,
        Kind::Ticks,
        Kind::Lost,
    ];

    /// The word in the tracks' table.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Machine => "machine",
            Kind::Cpus => "cpus",
            Kind::Cpu => "cpu",
            Kind::CpuGuest => "cpu_guest",
            Kind::Irq => "irq",
            Kind::Domain => "domain",
            Kind::Vcpus => "vcpus",
            Kind::Vcpu => "vcpu",
            Kind::Exits => "exits",
            Kind::Threads => "threads",
            Kind::Cgroup => "cgroup",
            Kind::Thread => "thread",
            Kind::Syscall => "syscall",
            Kind::Io => "io",
            Kind::Block => "block",
            Kind::Net => "net",
            Kind::Work => "work",
            Kind::Counters => "counters",
            Kind::Counter => "counter",
            Kind::Events => "events",
            Kind::Ticks => "ticks",
            Kind::Lost => "lost",
        }
    }

    /// The layer of the machine that it belongs to.
    pub fn layer(self) -> &'static str {
        match self {
            Kind::Machine | Kind::Domain => "machine",
            Kind::Cpus | Kind::Cpu | Kind::CpuGuest | Kind::Irq => "cpu",
            Kind::Vcpus | Kind::Vcpu | Kind::Exits => "vcpu",
            Kind::Threads | Kind::Cgroup | Kind::Thread | Kind::Syscall => "thread",
            Kind::Io | Kind::Block | Kind::Net | Kind::Work => "io",
            Kind::Counters | Kind::Counter => "counter",
            Kind::Events | Kind::Ticks | Kind::Lost => "event",
        }
    }

    /// Its place among a machine's tracks, from the hardware up: of a guest first what its vCPUs
    /// got, which is the host's to say, then what its own kernel believed to have.
    pub(crate) fn place(self) -> i64 {
        match self {
            Kind::Machine => 0,
            Kind::Domain => 1,
            Kind::Vcpus => 2,
            Kind::Vcpu => 3,
            Kind::Exits => 4,
            Kind::Cpus => 5,
            Kind::Cpu => 6,
            Kind::CpuGuest => 7,
            Kind::Irq => 8,
            other => other as i64,
        }
    }

    /// The group its first lane is in, if that is no other track's lane.
    pub(crate) fn group(self) -> Kind {
        match self {
            Kind::Machine | Kind::Cpus | Kind::Vcpus | Kind::Threads | Kind::Io => Kind::Machine,
            Kind::Counters | Kind::Events | Kind::Domain => Kind::Machine,
            Kind::Cpu | Kind::CpuGuest | Kind::Irq => Kind::Cpus,
            Kind::Vcpu | Kind::Exits => Kind::Vcpus,
            Kind::Cgroup | Kind::Thread | Kind::Syscall => Kind::Threads,
            Kind::Block | Kind::Net | Kind::Work => Kind::Io,
            Kind::Counter => Kind::Counters,
            Kind::Ticks | Kind::Lost => Kind::Events,
        }
    }

    /// The track of the same actor below which it is shown.
    pub(crate) fn lane_of(self) -> Option<Kind> {
        match self {
            Kind::CpuGuest | Kind::Irq => Some(Kind::Cpu),
            Kind::Exits => Some(Kind::Vcpu),
            Kind::Syscall => Some(Kind::Thread),
            _ => None,
        }
    }
}

/// What the intervals of a track are, and so what its sums are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// They have lengths and keys: sums are shares of time.
    Intervals,
    /// None has a length: sums are parts of their number.
    Instants,
    /// They have values: sums are the smallest, the largest and the mean.
    Numbers,
}

impl Shape {
    /// The word in the tracks' table.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Intervals => "intervals",
            Shape::Instants => "instants",
            Shape::Numbers => "numbers",
        }
    }
}

/// Whose track it is. Intervals of one actor that overlap are divided over lanes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Actor {
    /// The machine.
    pub machine: u32,
    /// What of it.
    pub kind: Kind,
    /// Its CPU, if the actor is (of) one.
    pub cpu: Option<u32>,
    /// Its vCPU.
    pub vcpu: Option<u32>,
    /// Its thread.
    pub tid: Option<i32>,
    /// What else tells it from others: a device, a control group, a counter's or event's name. Else empty.
    pub what: String,
}

impl Actor {
    /// An actor that is nothing but a machine's part of that kind.
    pub(crate) fn of(machine: u32, kind: Kind) -> Self {
        Actor { machine, kind, cpu: None, vcpu: None, tid: None, what: String::new() }
    }

    /// Where its intervals come from, as `detail` says.
    pub(crate) fn detail(&self, table: &str) -> String {
        use std::fmt::Write as _;
        if self.kind == Kind::Ticks {
            return format!("ev_{} of machine_id {}", self.what, self.machine);
        }
        let table = match self.kind {
            Kind::CpuGuest => "cpu_slices of guests, on the vCPUs",
            _ => table,
        };
        let mut text = format!("{table} of machine_id {}", self.machine);
        let numbers = [
            ("cpu", self.cpu.map(i64::from)),
            ("vcpu", self.vcpu.map(i64::from)),
            ("tid", self.tid.map(i64::from)),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                let _ = write!(text, " {name} {number}");
            }
        }
        if !self.what.is_empty() {
            let _ = write!(text, " {}", self.what);
        }
        text
    }
}
