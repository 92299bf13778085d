//! A worker behind a port that stays connected as long as its machine lives (virtio-serial, a terminal, a stream).
//!
//! On the other side a loop waits for lines `worker ARGUMENTS`, runs a worker on the port, and says when it has ended
//! (`serve_workers` in the testbed's `guest/host-common.sh`):
//! ```text
//! ◀── testbed: ready      (once)
//! ──▶ worker ARGUMENTS
//! ◀─▶ the worker's lines
//! ◀── \x04 CODE           it has ended
//! ```

use crate::platform::Pipes;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use transect_bench_core::{Fault, protocol::ToWorker};

/// What no line of a worker begins with: workers speak JSON.
const END: u8 = 4;

type Reader = BufReader<Box<dyn Read + Send>>;
type Writer = Box<dyn Write + Send>;

/// This host's end of a port.
#[derive(Clone)]
pub(crate) struct Port {
    reader: Arc<Mutex<Reader>>,
    writer: Arc<Mutex<Writer>>,
    is_busy: Arc<AtomicBool>,
}

impl Port {
    /// A port whose ends are these.
    pub(crate) fn new(from: impl Read + Send + 'static, to: impl Write + Send + 'static) -> Self {
        Self {
            reader: Arc::new(Mutex::new(BufReader::new(Box::new(from)))),
            writer: Arc::new(Mutex::new(Box::new(to))),
            is_busy: Arc::default(),
        }
    }

    /// Waits until the other side says that it is ready. Ends when the port does: end the machine to end the waiting.
    /// Where a read's time is over in the middle of a line, `line` keeps what there is of it for the next call.
    pub(crate) fn wait_until_ready(&self, line: &mut Vec<u8>) -> io::Result<()> {
        let mut reader = lock(&self.reader);
        loop {
            if reader.read_until(b'\n', line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line.trim_ascii().ends_with(b"testbed: ready") {
                return Ok(());
            }
            line.clear();
        }
    }

    /// Starts a worker.
    pub(crate) fn worker(&self, arguments: &[String]) -> Result<Pipes, Fault> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.is_busy.load(Ordering::Acquire) {
            // Nobody reads any more what the last one says, its end among it.
            if let Ok(mut reader) = self.reader.try_lock() {
                let mut line = Vec::new();
                let count = reader.read_until(b'\n', &mut line).map_err(Fault::failed)?;
                if count == 0 || line.first() == Some(&END) {
                    self.is_busy.store(false, Ordering::Release);
                }
            } else {
                std::thread::sleep(Duration::from_millis(5));
            }
            if Instant::now() > deadline {
                return Err(Fault::failed("the machine's last worker still runs"));
            }
        }
        let quoted: Vec<_> = arguments.iter().map(|word| quoted(word)).collect();
        let line = format!("worker {}\n", quoted.join(" "));
        let mut writer = lock(&self.writer);
        writer.write_all(line.as_bytes()).and_then(|()| writer.flush()).map_err(Fault::failed)?;
        self.is_busy.store(true, Ordering::Release);
        let from = FromPort { port: self.clone(), line: Vec::new(), at: 0 };
        Ok(Pipes { to: Box::new(ToPort(self.clone())), from: Box::new(from) })
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To a worker. A port has no end of its own that could be seen over there, so when this is dropped the worker is told.
struct ToPort(Port);

impl Write for ToPort {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.0.is_busy.load(Ordering::Acquire) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        lock(&self.0.writer).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.0.writer).flush()
    }
}

impl Drop for ToPort {
    fn drop(&mut self) {
        if let Ok(text) = serde_json::to_string(&ToWorker::End) {
            // If the machine is gone there is nobody to tell.
            drop(writeln!(self, "{text}").and_then(|()| self.flush()));
        }
    }
}

/// From a worker, up to its end.
struct FromPort {
    port: Port,
    line: Vec<u8>,
    at: usize,
}

impl BufRead for FromPort {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.line.len() && self.port.is_busy.load(Ordering::Acquire) {
            (self.line, self.at) = (Vec::new(), 0);
            let count = lock(&self.port.reader).read_until(b'\n', &mut self.line)?;
            let is_blank = self.line.trim_ascii().is_empty();
            if count == 0 || self.line.first() == Some(&END) {
                self.port.is_busy.store(false, Ordering::Release);
            }
            if is_blank || self.line.first() == Some(&END) {
                // The end comes on a line of its own, whatever stood before it.
                self.line.clear();
            }
        }
        Ok(&self.line[self.at..])
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.line.len());
    }
}

impl Read for FromPort {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let some = self.fill_buf()?;
        let count = some.len().min(into.len());
        into[..count].copy_from_slice(&some[..count]);
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// The other side, as the machines have it, but in a thread.
    fn port() -> (Port, std::thread::JoinHandle<Vec<String>>) {
        let (here, there) = UnixStream::pair().unwrap();
        let other = std::thread::spawn(move || {
            let mut to = there.try_clone().unwrap();
            let mut heard = Vec::new();
            writeln!(to, "noise\ntestbed: ready").unwrap();
            // A socket that is closed with something unread in it ends in an error.
            for line in BufReader::new(there).lines().map_while(Result::ok) {
                let is_start = line.starts_with("worker ");
                let text = if is_start { "{\"hello\":1}\n" } else { "{\"half\"\n\x04 0\n" };
                // At the end nobody listens any more.
                drop(to.write_all(text.as_bytes()));
                heard.push(line);
            }
            heard
        });
        (Port::new(here.try_clone().unwrap(), here), other)
    }

    #[test]
    fn a_line_that_comes_in_two_parts_is_one() {
        let (here, mut there) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let port = Port::new(here.try_clone().unwrap(), here);
        let mut line = Vec::new();
        there.write_all(b"noise\ntestbed: rea").unwrap();
        let error = port.wait_until_ready(&mut line).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        there.write_all(b"dy\n").unwrap();
        port.wait_until_ready(&mut line).unwrap();
    }

    #[test]
    fn workers_follow_one_another_and_each_ends() {
        let (port, other) = port();
        port.wait_until_ready(&mut Vec::new()).unwrap();
        for _ in 0..2 {
            let mut pipes = port.worker(&["a b".into(), "it's".into()]).unwrap();
            writeln!(pipes.to, "over").unwrap();
            let mut said = String::new();
            pipes.from.read_to_string(&mut said).unwrap();
            assert_eq!(said, "{\"hello\":1}\n{\"half\"\n");
            assert!(writeln!(pipes.to, "after the end").is_err());
        }
        // One that is dropped unheard is told to end, and the next one starts clean.
        drop(port.worker(&[]).unwrap());
        let mut pipes = port.worker(&[]).unwrap();
        let mut line = String::new();
        pipes.from.read_line(&mut line).unwrap();
        assert_eq!(line, "{\"hello\":1}\n");
        drop((pipes, port));
        let heard = other.join().unwrap();
        assert_eq!(heard[0], r"worker 'a b' 'it'\''s'");
        assert!(heard.contains(&"\"end\"".to_owned()), "{heard:?}");
    }
}
