//! The terminal, and the threads that give keys, signals and windows.

mod error;
mod event;
mod input;
mod terminal;

pub use error::ScreenError;
pub use terminal::check as check_terminal;

use crate::{
    app::{After, App, Looks},
    draw::draw,
    moment::Moment,
    past::{Log, Past, Ring},
};
use event::{Event, Tells};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};
use terminal::Screen;
use transect_live::Source;

/// Where the windows come from.
pub enum Feed {
    /// A live source.
    Live(Box<dyn Source>),
    /// A log.
    Log(Log),
}

/// Shows the screen until its user ends it, or a signal does.
///
/// # Errors
/// No terminal, or it failed. Whatever happens, the terminal is as it was before.
pub fn run(feed: Feed) -> Result<(), ScreenError> {
    check_terminal()?;
    let (to, events) = sync_channel(64);
    signals(to.clone()).map_err(ScreenError::Terminal)?;
    let past = match feed {
        Feed::Log(log) => Past::Log(Box::new(log)),
        Feed::Live(source) => {
            windows(source, to.clone()).map_err(ScreenError::Terminal)?;
            Past::Seen(Ring::default())
        }
    };
    let mut app = App::new(past, looks());
    let mut screen = Screen::open().map_err(ScreenError::Terminal)?;
    input::start(to).map_err(ScreenError::Terminal)?;
    let result = show(&mut app, &mut screen, &events);
    screen.close();
    result.map_err(ScreenError::Terminal)
}

fn show(app: &mut App, screen: &mut Screen, events: &Receiver<Event>) -> io::Result<()> {
    let (width, height) = screen.size()?;
    app.resize(width, height);
    loop {
        screen.draw(|area, buffer| draw(app, area, buffer))?;
        let event = match app.plays_every_ns() {
            None => events.recv().ok(),
            Some(ns) => match events.recv_timeout(Duration::from_nanos(ns)) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => {
                    app.play();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => None,
            },
        };
        let Some(event) = event else { return Ok(()) };
        if !take(app, screen, event)? {
            return Ok(());
        }
        // What came meanwhile is drawn together.
        while let Ok(event) = events.try_recv() {
            if !take(app, screen, event)? {
                return Ok(());
            }
        }
    }
}

/// False: the end.
fn take(app: &mut App, screen: &mut Screen, event: Event) -> io::Result<bool> {
    match event {
        Event::Key(key) => return Ok(app.key(key) != After::Quit),
        Event::Interrupt | Event::Gone => return Ok(false),
        Event::Panicked => {
            return Err(io::Error::other("a thread of this process panicked: see above"));
        }
        Event::Window(snapshot) => app.push(Moment::new(*snapshot)),
        Event::Ended(why) => app.end(why),
        Event::Resize(width, height) => app.resize(width, height),
        Event::Suspend | Event::Signal(SIGTSTP) => {
            screen.suspend()?;
            let (width, height) = screen.size()?;
            app.resize(width, height);
        }
        // Stopped by others, the terminal may show anything.
        Event::Signal(SIGCONT) => screen.again()?,
        Event::Signal(_) => return Ok(false),
    }
    Ok(true)
}

fn looks() -> Looks {
    // https://no-color.org: set and not empty.
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let locale = locale.unwrap_or_default().to_lowercase();
    let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
    Looks { is_ascii: !is_utf8, is_plain: is_set("NO_COLOR") }
}

fn signals(to: SyncSender<Event>) -> io::Result<()> {
    let ends = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT];
    let mut signals = signal_hook::iterator::Signals::new(ends)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if to.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

fn windows(mut source: Box<dyn Source>, to: SyncSender<Event>) -> io::Result<()> {
    thread::Builder::new().name("windows".to_owned()).spawn(move || {
        let _tells = Tells(to.clone());
        loop {
            let (event, is_end) = match source.take() {
                Ok(snapshot) => (Event::Window(Box::new(snapshot)), false),
                Err(error) => (Event::Ended(error.to_string()), true),
            };
            if to.send(event).is_err() || is_end {
                return;
            }
        }
    })?;
    Ok(())
}
