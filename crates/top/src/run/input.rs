//! Keys and sizes from the terminal.

use super::event::{Event, Tells};
use crate::app::Key;
use ratatui_crossterm::crossterm::event::{
    self, Event as Raw, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use std::{io, sync::mpsc::SyncSender, thread};

/// Reads the terminal in a thread of its own, so that nothing has to be polled.
pub(super) fn start(to: SyncSender<Event>) -> io::Result<()> {
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let _tells = Tells(to.clone());
        loop {
            let event = match event::read() {
                Ok(Raw::Key(key)) if key.kind != KeyEventKind::Release => match event_of(key) {
                    Some(event) => event,
                    None => continue,
                },
                Ok(Raw::Resize(width, height)) => Event::Resize(width, height),
                Ok(_) => continue,
                Err(_) => Event::Gone,
            };
            let is_end = matches!(event, Event::Gone);
            if to.send(event).is_err() || is_end {
                return;
            }
        }
    })?;
    Ok(())
}

fn event_of(key: KeyEvent) -> Option<Event> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return Some(match key.code {
            KeyCode::Char('c') => Event::Interrupt,
            KeyCode::Char('z') => Event::Suspend,
            KeyCode::Char('d' | 'f') => Event::Key(Key::PageDown),
            KeyCode::Char('u' | 'b') => Event::Key(Key::PageUp),
            _ => return None,
        });
    }
    Some(Event::Key(match key.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        _ => return None,
    }))
}
