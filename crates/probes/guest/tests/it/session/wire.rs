//! A socket between recorder and agent that can be cut, frozen, or start with rubbish.

use crate::session::mono;
use std::{
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

pub(crate) struct Wire(Arc<State>);

#[derive(Default)]
struct State {
    links: AtomicU64,
    /// Links below this number are cut.
    cut_below: AtomicU64,
    frozen: AtomicBool,
    /// Threads that pass bytes on, and those of them that hold them back.
    passing: AtomicU64,
    holding: AtomicU64,
}

impl Wire {
    pub(crate) fn lay(front: &Path, back: PathBuf, stale: Vec<u8>) -> Self {
        let listener = UnixListener::bind(front).unwrap();
        let state = Arc::new(State::default());
        let theirs = Arc::clone(&state);
        thread::spawn(move || {
            for near in listener.incoming() {
                let mut near = near.unwrap();
                // QEMU delivers what the guest wrote to nobody as soon as somebody connects.
                let _ = near.write_all(&stale);
                let Ok(mut far) = UnixStream::connect(&back) else { continue };
                let _ = far.write_all(&stale);
                let link = theirs.links.fetch_add(1, SeqCst);
                for (from, to) in
                    [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    let state = Arc::clone(&theirs);
                    state.passing.fetch_add(1, SeqCst);
                    thread::spawn(move || {
                        pass(from, to, link, &state);
                        state.passing.fetch_sub(1, SeqCst);
                    });
                }
            }
        });
        Wire(state)
    }

    /// Nothing passes from here on.
    pub(crate) fn freeze(&self) {
        self.0.frozen.store(true, SeqCst);
        while self.0.holding.load(SeqCst) < self.0.passing.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Everything passes again.
    pub(crate) fn thaw(&self) {
        self.0.frozen.store(false, SeqCst);
    }

    /// Cuts the links there are, and says when: nothing passed after that, and no other link came before.
    pub(crate) fn cut(&self) -> u64 {
        self.freeze();
        let at = mono();
        self.0.cut_below.store(self.0.links.load(SeqCst), SeqCst);
        self.0.frozen.store(false, SeqCst);
        at
    }
}

fn pass(mut from: UnixStream, mut to: UnixStream, link: u64, state: &State) {
    from.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let mut buffer = [0; 16384];
    loop {
        if state.frozen.load(SeqCst) {
            state.holding.fetch_add(1, SeqCst);
            while state.frozen.load(SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            state.holding.fetch_sub(1, SeqCst);
        }
        if link < state.cut_below.load(SeqCst) {
            let _ = from.shutdown(std::net::Shutdown::Both);
            let _ = to.shutdown(std::net::Shutdown::Both);
            return;
        }
        match from.read(&mut buffer) {
            Ok(0) => {
                let _ = to.shutdown(std::net::Shutdown::Both);
                return;
            }
            Ok(bytes) => {
                if to.write_all(&buffer[..bytes]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
