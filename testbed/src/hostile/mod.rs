//! A hostile agent: it speaks the guest channel's protocol, and misuses it in one way.
//!
//! Each [`Mode`] is an attack on the recorder: on its memory, disk, files, time or messages. In everything else the agent
//! is correct, so that the recorder reaches the state that the attack needs.

mod wire;

use std::{
    io::{self, BufWriter, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use wire::Payload;

/// One kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Accepts the connection and sends nothing.
    Silent,
    /// Sends bytes that are no frames.
    Garbage,
    /// Sends one byte of its Welcome per second.
    SlowWelcome,
    /// Describes a machine with 4 billion CPUs and a host name of 60,000 bytes.
    HugeFacts,
    /// Answers Pings and never starts.
    NeverStarts,
    /// Answers Start with an error that has terminal escapes and line breaks.
    ForgedError,
    /// Sends events of the compact collector in place of Started.
    WordsBeforeStarted,
    /// Sends pages in place of Started.
    PagesBeforeStarted,
    /// Sends descriptive files without a name and content, without end.
    EmptyFiles,
    /// Sends one descriptive file without end.
    EndlessFile,
    /// Sends descriptive files of new names, without end.
    ManyFiles,
    /// Sends descriptive files whose names leave the recording.
    FilesElsewhere,
    /// Has 400,000 threads.
    ManyThreads,
    /// Sends pages as fast as it can.
    DiskFlood,
    /// Sends events of the compact collector as fast as it can.
    WordsFlood,
    /// Sends pages of ever new CPUs.
    ManyCpus,
    /// Sends pages of each of its 8,192 CPUs.
    AllCpus,
    /// Sends pages that end in the middle of a sub-buffer.
    TornPages,
    /// Claims to have lost 2^64 - 1 events.
    LyingCounts,
    /// Sends statistics as fast as it can.
    StatsFlood,
    /// Sends readings of its clock as fast as it can.
    ReadingsFlood,
    /// Closes each connection once it records.
    Flapping,
    /// Sends garbage in the middle of each connection.
    GarbageLater,
    /// Reads nothing once it records.
    NeverReads,
    /// Answers Stop with descriptive files without end.
    FilesAfterStop,
    /// Answers Stop with events without end.
    EventsAfterStop,
    /// Does not answer Stop.
    SilentAfterStop,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 27] = [
        Mode::Silent,
        Mode::Garbage,
        Mode::SlowWelcome,
        Mode::HugeFacts,
        Mode::NeverStarts,
        Mode::ForgedError,
        Mode::WordsBeforeStarted,
        Mode::PagesBeforeStarted,
        Mode::EmptyFiles,
        Mode::EndlessFile,
        Mode::ManyFiles,
        Mode::FilesElsewhere,
        Mode::ManyThreads,
        Mode::DiskFlood,
        Mode::WordsFlood,
        Mode::ManyCpus,
        Mode::AllCpus,
        Mode::TornPages,
        Mode::LyingCounts,
        Mode::StatsFlood,
        Mode::ReadingsFlood,
        Mode::Flapping,
        Mode::GarbageLater,
        Mode::NeverReads,
        Mode::FilesAfterStop,
        Mode::EventsAfterStop,
        Mode::SilentAfterStop,
    ];

    /// Its name in a command line.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for (at, c) in format!("{self:?}").char_indices() {
            if c.is_uppercase() && at > 0 {
                name.push('-');
            }
            name.extend(c.to_lowercase());
        }
        name
    }

    /// Does it record like a guest with the compact collector?
    fn is_compact(self) -> bool {
        matches!(self, Mode::WordsFlood | Mode::ManyThreads | Mode::EventsAfterStop)
    }
}

/// A hostile agent that listens on 127.0.0.1, until it is dropped.
pub struct HostileAgent {
    address: String,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl HostileAgent {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// It cannot listen.
    pub fn start(mode: Mode) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || serve(&listener, mode, &over));
        Ok(HostileAgent { address, is_over, thread: Some(thread) })
    }

    /// `127.0.0.1:PORT`
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for HostileAgent {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves recorders, one after the other.
pub fn serve(listener: &TcpListener, mode: Mode, is_over: &Arc<AtomicBool>) {
    for stream in listener.incoming().flatten() {
        if is_over.load(Relaxed) {
            return;
        }
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let connection = Connection { mode, session: 0, is_over: Arc::clone(is_over), stream };
        // That the recorder closes the connection is the expected end.
        let _ = connection.run();
    }
}

struct Connection {
    mode: Mode,
    session: u32,
    is_over: Arc<AtomicBool>,
    stream: TcpStream,
}

const PAGE: usize = 4096;
const CHUNK: u64 = 32 << 10;

impl Connection {
    fn run(mut self) -> io::Result<()> {
        match self.mode {
            Mode::Silent => return self.wait(),
            Mode::Garbage => return self.repeat(|_, out| out.write_all(&[0x5a; 4096])),
            _ => {}
        }
        let mut is_stopped = false;
        loop {
            let frame = wire::read(&mut self.stream)?;
            self.session = frame.session;
            match frame.kind {
                wire::HELLO => self.welcome()?,
                wire::PING => self.pong(&frame.payload)?,
                wire::START | wire::START_COMPACT => self.start()?,
                wire::STOP if !is_stopped => {
                    is_stopped = true;
                    self.stop()?;
                }
                wire::BYE => return Ok(()),
                _ => {}
            }
        }
    }

    /// Sends something until the recorder has enough.
    fn repeat(
        &mut self,
        mut one: impl FnMut(u64, &mut BufWriter<&mut TcpStream>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, &mut self.stream);
        for number in 0.. {
            if self.is_over.load(Relaxed) {
                break;
            }
            one(number, &mut out)?;
        }
        Ok(())
    }

    /// Sends nothing and reads nothing.
    fn wait(&self) -> io::Result<()> {
        let mut buffer = [0; 1];
        self.stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        // The peer is gone once a look finds no bytes and no wait.
        while !self.is_over.load(Relaxed) && !matches!(self.stream.peek(&mut buffer), Ok(0)) {
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn welcome(&mut self) -> io::Result<()> {
        let (cpus, name) = match self.mode {
            Mode::HugeFacts => (u32::MAX, "x".repeat(60_000)),
            Mode::AllCpus => (8192, "hostile".to_owned()),
            _ => (2, "hostile".to_owned()),
        };
        let boot =
            format!("{:?}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let texts = [&name, "6.1.0", "#1 SMP", "x86_64", &boot, "", "tsc"];
        let mut payload = Payload::default().u8(2).text("0.1.0");
        for text in texts {
            payload = payload.text(text);
        }
        payload = payload.u16(2).text("mono").text("x86-tsc");
        // The codes of both clocks: mono, and the TSC.
        payload = payload.u16(2).bytes(&[2, 1]).u32(cpus).u32(4096).u8(0).u32(0).text("");
        let frame = payload.frame(wire::WELCOME, self.session);
        if self.mode == Mode::SlowWelcome {
            for byte in frame {
                self.stream.write_all(&[byte])?;
                thread::sleep(Duration::from_secs(1));
                if self.is_over.load(Relaxed) {
                    return Ok(());
                }
            }
            return Ok(());
        }
        self.stream.write_all(&frame)
    }

    fn pong(&mut self, ping: &[u8]) -> io::Result<()> {
        let seq = ping.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        Payload::default().u32(seq).u32(0).u64(1).send(wire::PONG, self.session, &mut self.stream)
    }

    fn start(&mut self) -> io::Result<()> {
        let session = self.session;
        let meta = |name: &str, more: bool, bytes: &[u8]| {
            let payload = Payload::default().text(name).u8(u8::from(more)).bytes(bytes);
            payload.frame(wire::META, session)
        };
        match self.mode {
            Mode::NeverStarts => return Ok(()),
            Mode::ForgedError => {
                let text = "no tracefs\n\x1b[2K\rtransect: recorded 5 events, 0 lost\u{202e}";
                return Payload::default().text(text).send(wire::ERROR, session, &mut self.stream);
            }
            Mode::WordsBeforeStarted => return self.flood_words(),
            Mode::PagesBeforeStarted => return self.flood_pages(|_| 0),
            Mode::EmptyFiles => return self.repeat(|_, out| out.write_all(&meta("", false, &[]))),
            Mode::EndlessFile => {
                return self
                    .repeat(|_, out| out.write_all(&meta("kallsyms", true, &[0; 48 << 10])));
            }
            Mode::ManyFiles => {
                return self.repeat(|number, out| {
                    out.write_all(&meta(&format!("events/x/{number}/format"), false, b"x"))
                });
            }
            Mode::FilesElsewhere => {
                for name in ["../../../tmp/transect-hostile", "/tmp/transect-hostile", "a/../../b"]
                {
                    self.stream.write_all(&meta(name, false, b"x"))?;
                }
            }
            Mode::ManyThreads => {
                let mut text = Vec::new();
                for tid in 1..=400_000 {
                    text.extend(format!("{tid} 1 t{tid}\n").bytes());
                }
                for piece in text.chunks(48 << 10) {
                    self.stream.write_all(&meta("threads", true, piece))?;
                }
                self.stream.write_all(&meta("threads", false, &[]))?;
            }
            _ => {}
        }
        self.started()?;
        let first = Payload::default().u8(0).u32(0).u64(0).u16(0);
        first.send(wire::STATS, session, &mut self.stream)?;
        self.record()
    }

    fn started(&mut self) -> io::Result<()> {
        let payload = Payload::default();
        if !self.mode.is_compact() {
            let payload = payload.text("x86-tsc").u32(4096).u64(1 << 20).u16(0);
            return payload.send(wire::STARTED, self.session, &mut self.stream);
        }
        let payload = payload.text("mono").u32(32 << 10).u64(1 << 20).u16(0).text("").u8(1);
        let payload = payload.u64(1 << 20).text("svm").u16(1).text("sched:sched_switch");
        payload.send(wire::STARTED_COMPACT, self.session, &mut self.stream)
    }

    /// What it does once it records; afterwards it answers Pings.
    fn record(&mut self) -> io::Result<()> {
        let session = self.session;
        match self.mode {
            Mode::DiskFlood => self.flood_pages(|_| 0),
            Mode::WordsFlood => self.flood_words(),
            Mode::ManyCpus => self.flood_pages(|number| u32::try_from(number).unwrap_or(u32::MAX)),
            Mode::AllCpus => {
                for cpu in 0..8192 {
                    let payload = Payload::default().u32(cpu).bytes(&[0; PAGE]);
                    payload.send(wire::DATA, session, &mut self.stream)?;
                }
                Ok(())
            }
            Mode::TornPages => {
                let payload = Payload::default().u32(0).bytes(&[0; PAGE + 8]);
                payload.send(wire::DATA, session, &mut self.stream)
            }
            Mode::LyingCounts => {
                let counts = Payload::default().u8(0).u32(0).u64(0).u16(1);
                let counts = counts.u32(0).u64(u64::MAX).u64(u64::MAX).u64(1).u64(1);
                counts.send(wire::STATS, session, &mut self.stream)
            }
            Mode::StatsFlood => {
                let frame =
                    Payload::default().u8(0).u32(0).u64(0).u16(0).frame(wire::STATS, session);
                self.repeat(|_, out| out.write_all(&frame))
            }
            Mode::ReadingsFlood => self.repeat(|number, out| {
                let reading = Payload::default().u8(2).u64(number).u64(number).u64(number + 1);
                reading.send(wire::READING, session, out)
            }),
            Mode::Flapping => Err(io::ErrorKind::ConnectionAborted.into()),
            Mode::GarbageLater => {
                self.stream.write_all(&[0x5a; 4096])?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Mode::NeverReads => self.wait(),
            _ => Ok(()),
        }
    }

    fn stop(&mut self) -> io::Result<()> {
        let session = self.session;
        match self.mode {
            Mode::SilentAfterStop => Ok(()),
            Mode::FilesAfterStop => self.repeat(|number, out| {
                let file = Payload::default().text(&number.to_string()).u8(0).bytes(&[0; 32 << 10]);
                file.send(wire::META, session, out)
            }),
            Mode::EventsAfterStop => self.flood_words(),
            _ => Payload::default().send(wire::STOPPED, session, &mut self.stream),
        }
    }

    fn flood_pages(&mut self, cpu: impl Fn(u64) -> u32) -> io::Result<()> {
        let session = self.session;
        let pages = vec![0; 15 * PAGE];
        self.repeat(|number, out| {
            Payload::default().u32(cpu(number)).bytes(&pages).send(wire::DATA, session, out)
        })
    }

    fn flood_words(&mut self) -> io::Result<()> {
        let session = self.session;
        let words = vec![0; 16 << 10];
        self.repeat(|number, out| {
            let place = Payload::default().u32(0).u8(0).u64(number * CHUNK).u64(number).u64(0);
            place.bytes(&words).send(wire::WORDS, session, out)
        })
    }
}
