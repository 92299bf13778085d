//! Two front ends as they are in life: a dashboard that gets every window with the tables that it shows, and
//! Prometheus, which scrapes every 15 s.

use anyhow::{Context, Result, bail, ensure};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// As Prometheus' own example has it.
const SCRAPE_EVERY: Duration = Duration::from_secs(15);
/// The tables that the dashboard asks for (`web/dashboard/page/feed.ts`).
const TABLES: &str = "machines,windows,window_details,cpu_windows,io_windows,container_windows,health,\
                      exit_windows,antagonists,pressure_windows,missing";

/// Both, until they are ended.
#[derive(Debug)]
pub struct FrontEnds {
    over: Arc<AtomicBool>,
    windows: Arc<AtomicU64>,
    scrapes: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl FrontEnds {
    /// Starts them, and waits for their first answers.
    ///
    /// # Errors
    /// If they are not answered.
    pub fn start(address: SocketAddr) -> Result<Self> {
        let (over, windows, scrapes) = (Arc::default(), Arc::default(), Arc::default());
        let mut all = FrontEnds { over, windows, scrapes, threads: Vec::new() };
        let (over, windows) = (Arc::clone(&all.over), Arc::clone(&all.windows));
        all.threads.push(std::thread::spawn(move || dashboard(address, &over, &windows)));
        let (over, scrapes) = (Arc::clone(&all.over), Arc::clone(&all.scrapes));
        all.threads.push(std::thread::spawn(move || prometheus(address, &over, &scrapes)));
        let begun = Instant::now();
        while all.windows.load(Relaxed) < 2 || all.scrapes.load(Relaxed) < 1 {
            ensure!(begun.elapsed() < Duration::from_secs(20), "front ends are not answered");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(all)
    }

    /// Windows and scrapes that were answered so far.
    #[must_use]
    pub fn answers(&self) -> (u64, u64) {
        (self.windows.load(Relaxed), self.scrapes.load(Relaxed))
    }

    /// Ends them.
    ///
    /// # Errors
    /// If one had failed.
    pub fn end(mut self) -> Result<()> {
        self.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| anyhow::anyhow!("a front end panicked"))??;
        }
        Ok(())
    }
}

impl Drop for FrontEnds {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

fn dashboard(address: SocketAddr, over: &AtomicBool, windows: &AtomicU64) -> Result<()> {
    let mut client = Client::new(address)?;
    let mut after = String::new();
    while !over.load(Relaxed) {
        let body =
            client.get(&format!("/api/v1/now?tables={TABLES}{after}"), "application/json")?;
        let text = std::str::from_utf8(&body)?;
        let ts = text.strip_prefix("{\"ts\":").and_then(|rest| rest.split(',').next());
        after = format!("&after={}", ts.context("a window without ts")?);
        windows.fetch_add(1, Relaxed);
    }
    Ok(())
}

fn prometheus(address: SocketAddr, over: &AtomicBool, scrapes: &AtomicU64) -> Result<()> {
    let mut client = Client::new(address)?;
    while !over.load(Relaxed) {
        let begun = Instant::now();
        let page = client.get("/metrics", "application/openmetrics-text;version=1.0.0")?;
        ensure!(page.ends_with(b"# EOF\n"), "a scrape was cut");
        scrapes.fetch_add(1, Relaxed);
        while begun.elapsed() < SCRAPE_EVERY && !over.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// One request on a connection of its own.
pub(super) fn get(address: SocketAddr, path: &str, accept: &str) -> Result<Vec<u8>> {
    Client::new(address)?.get(path, accept)
}

/// A connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Client {
    fn new(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(40)))?;
        Ok(Client {
            stream: BufReader::with_capacity(256 << 10, stream),
            host: address.to_string(),
        })
    }

    fn get(&mut self, path: &str, accept: &str) -> Result<Vec<u8>> {
        let host = &self.host;
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n");
        self.stream.get_mut().write_all(head.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            ensure!(self.stream.read_line(&mut line)? > 0, "the connection was closed");
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        if status != "200" {
            bail!("{path}: {status}");
        }
        Ok(body)
    }
}
