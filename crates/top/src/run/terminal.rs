//! The terminal, and how it is given back.

use super::error::ScreenError;
use ratatui::{Terminal, buffer::Buffer, layout::Rect};
use ratatui_crossterm::{
    CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        execute, queue,
        terminal::{
            BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
            LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
        },
    },
};
use signal_hook::{consts::SIGTSTP, low_level::emulate_default_handler};
use std::{
    io::{self, BufWriter, IsTerminal as _, Stdout},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

/// Is the terminal ours just now? Asked by whoever ends the process.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Is there a terminal that can show the screen?
///
/// # Errors
/// There is none, and why.
pub fn check() -> Result<(), ScreenError> {
    if !io::stdout().is_terminal() {
        return Err(ScreenError::NoTerminal);
    }
    match std::env::var("TERM") {
        Ok(term) if term == "dumb" => Err(ScreenError::Dumb),
        _ => Ok(()),
    }
}

/// More than a large screen's changes take: standard output alone would hand them over by the KiB.
const FRAME_BYTES: usize = 256 << 10;

type Backend = CrosstermBackend<BufWriter<Stdout>>;

/// The terminal while it is ours. Gives it back when it goes, and when the process panics.
pub(super) struct Screen(Terminal<Backend>);

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        restore_on_panic();
        Ok(Screen(enter()?))
    }

    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.0.size()?;
        Ok((size.width, size.height))
    }

    /// All of a window at once, never half of it and half of the one before: in one write, and told to the terminal
    /// as one update where it knows of such.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        queue!(self.0.backend_mut(), BeginSynchronizedUpdate)?;
        self.0.draw(|frame| draw(frame.area(), frame.buffer_mut()))?;
        execute!(self.0.backend_mut(), EndSynchronizedUpdate)
    }

    /// As Control and Z does elsewhere: the shell has its terminal until it lets us go on.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        emulate_default_handler(SIGTSTP)?;
        self.again()
    }

    /// Draws everything anew.
    pub(super) fn again(&mut self) -> io::Result<()> {
        self.0 = enter()?;
        Ok(())
    }

    pub(super) fn close(self) {
        drop(self);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Takes the terminal. Its `clear` is not used: that asks where the cursor is, and the answer would come to the
/// thread that reads keys.
fn enter() -> io::Result<Terminal<Backend>> {
    IS_OURS.store(true, SeqCst);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide, Clear(ClearType::All))?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(FRAME_BYTES, io::stdout())))
}

/// Gives the terminal back, once. What fails here cannot be mended: the terminal is gone.
fn give_back() {
    if IS_OURS.swap(false, SeqCst) {
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// A panic's message belongs on the user's screen, not on ours.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
    });
}
