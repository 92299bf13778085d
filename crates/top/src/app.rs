//! What the screen shows, changed by keys and windows. No terminal, no clock.

use crate::{
    draw::layout,
    help,
    level::Level,
    moment::Moment,
    past::Past,
    sums::Span,
    table::{Glyphs, Sort},
    views::{self, LONG, Page, Scene, View},
};
use std::rc::Rc;
use transect_model::ids::CpuId;

/// A key, as far as the screen knows keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Backspace.
    Backspace,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Tabulator.
    Tab,
    /// Tabulator back.
    BackTab,
}

/// What is to be done after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Go on.
    Stay,
    /// End.
    Quit,
}

/// What cannot be changed by keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// The terminal has no UTF-8.
    pub is_ascii: bool,
    /// No colours are wanted.
    pub is_plain: bool,
}

/// Text over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlay {
    Help,
    Missing,
}

/// The screen.
pub struct App {
    pub(crate) past: Past,
    /// The window that is looked at; none: the newest.
    pub(crate) at: Option<u64>,
    pub(crate) is_playing: bool,
    levels: Vec<Level>,
    pub(crate) overlay: Option<(Overlay, usize)>,
    /// While a filter is typed: the one before.
    pub(crate) typing: Option<String>,
    pub(crate) size: (u16, u16),
    pub(crate) looks: Looks,
    pub(crate) glyphs: Glyphs,
    /// Why no more windows come.
    pub(crate) ended: Option<String>,
    /// What a key could not do, until the next one.
    pub(crate) answer: Option<String>,
}

impl App {
    /// The screen over what is or will be known.
    pub fn new(past: Past, looks: Looks) -> Self {
        let at = matches!(past, Past::Log(_)).then_some(0);
        App {
            past,
            at,
            is_playing: false,
            levels: vec![Level::new(View::All)],
            overlay: None,
            typing: None,
            size: (80, 24),
            looks,
            glyphs: Glyphs::of(looks.is_ascii),
            ended: None,
            answer: None,
        }
    }

    /// Takes the newest window.
    pub fn push(&mut self, moment: Moment) {
        if let Past::Seen(ring) = &mut self.past {
            ring.push(moment);
        }
    }

    /// No more windows come.
    pub fn end(&mut self, why: String) {
        self.ended = Some(why);
    }

    /// The terminal's size.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
    }

    /// How long until a log that is played goes on, ns; none if it does not.
    pub fn plays_every_ns(&self) -> Option<u64> {
        let moment = self.moment().filter(|_| self.is_playing)?.ok()?;
        u64::try_from(moment.snapshot.dur).ok().map(|ns| ns.max(50_000_000))
    }

    /// A log that is played goes on.
    pub fn play(&mut self) {
        if self.is_playing {
            self.step(1);
            self.is_playing = self.at.is_some_and(|at| at + 1 < self.past.range().end);
        }
    }

    pub(crate) fn is_log(&self) -> bool {
        matches!(self.past, Past::Log(_))
    }

    /// Number of the window on the screen.
    pub(crate) fn number(&self) -> Option<u64> {
        let range = self.past.range();
        let last = range.end.checked_sub(1).filter(|last| range.contains(last))?;
        Some(self.at.unwrap_or(last).clamp(range.start, last))
    }

    /// The window on the screen, or why it cannot be shown.
    pub(crate) fn moment(&self) -> Option<Result<Rc<Moment>, String>> {
        self.past.get(self.number()?)
    }

    pub(crate) fn level(&self) -> &Level {
        // There is always the first.
        let last = self.levels.len() - 1;
        &self.levels[last]
    }

    fn level_mut(&mut self) -> &mut Level {
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = &View> {
        self.levels.iter().map(|level| &level.view)
    }

    /// The windows that sums are made of.
    pub(crate) fn span(&self) -> Span {
        let moments = self.number().map(|at| self.past.until(at, LONG)).unwrap_or_default();
        Span { moments }
    }

    pub(crate) fn page(&self, span: &Span) -> Page {
        let scene = Scene { span, level: self.level(), glyphs: &self.glyphs };
        views::page(&self.level().view, &scene)
    }

    /// Takes a key.
    pub fn key(&mut self, key: Key) -> After {
        self.answer = None;
        if self.typing.is_some() {
            self.type_filter(key);
            return After::Stay;
        }
        if let Some((overlay, scroll)) = self.overlay {
            self.key_on_text(key, overlay, scroll);
            return After::Stay;
        }
        match key {
            Key::Char('q') => return After::Quit,
            Key::Char('?') => self.overlay = Some((Overlay::Help, 0)),
            Key::Char('m') => self.overlay = Some((Overlay::Missing, 0)),
            Key::Char('/') => self.typing = Some(self.level().filter.clone()),
            Key::Esc | Key::Backspace => self.back(),
            Key::Enter => self.enter(),
            Key::Tab => self.move_focus(1),
            Key::BackTab => self.move_focus(-1),
            Key::Char('c') => self.next_cpu(1),
            Key::Char('C') => self.next_cpu(-1),
            Key::Char('t') => self.open(View::Threads),
            Key::Char('f') => self.open(View::Findings),
            Key::Char('<') => self.sort_by(-1),
            Key::Char('>') => self.sort_by(1),
            Key::Char('r') => self.reverse(),
            Key::Char(' ') => self.pause(),
            Key::Left | Key::Char('h') => self.go(-1),
            Key::Right | Key::Char('l') => self.go(1),
            Key::Char('[') => self.go(-10),
            Key::Char(']') => self.go(10),
            Key::Char('L') => self.go_to_newest(),
            key => self.move_by_key(key),
        }
        After::Stay
    }

    fn move_by_key(&mut self, key: Key) {
        let page = isize::from(i16::try_from(self.size.1 / 2).unwrap_or(10)).max(1);
        match key {
            Key::Up | Key::Char('k') => self.move_cursor(-1),
            Key::Down | Key::Char('j') => self.move_cursor(1),
            Key::PageUp => self.move_cursor(-page),
            Key::PageDown => self.move_cursor(page),
            Key::Home | Key::Char('g') => self.move_cursor(isize::MIN),
            Key::End | Key::Char('G') => self.move_cursor(isize::MAX),
            _ => self.answer = Some("unknown key: press ? for help".to_owned()),
        }
    }

    fn type_filter(&mut self, key: Key) {
        /// Names are not longer.
        const LONGEST: usize = 64;
        match key {
            Key::Enter => self.typing = None,
            Key::Esc => {
                let before = self.typing.take().unwrap_or_default();
                self.level_mut().filter = before;
            }
            Key::Backspace => {
                self.level_mut().filter.pop();
            }
            Key::Char(c) if self.level().filter.chars().count() < LONGEST => {
                self.level_mut().filter.push(c);
            }
            _ => {}
        }
    }

    fn key_on_text(&mut self, key: Key, overlay: Overlay, scroll: usize) {
        let lines = self.text(overlay).len();
        let last = lines.saturating_sub(layout::text_height(self.size.1));
        let page = layout::text_height(self.size.1).max(1);
        let scroll = match key {
            Key::Down | Key::Char('j') => scroll + 1,
            Key::Up | Key::Char('k') => scroll.saturating_sub(1),
            Key::PageDown | Key::Char(' ') => scroll + page,
            Key::PageUp => scroll.saturating_sub(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            _ => {
                self.overlay = None;
                return;
            }
        };
        self.overlay = Some((overlay, scroll.min(last)));
    }

    /// The lines of a text, as wide as the screen.
    pub(crate) fn text(&self, overlay: Overlay) -> Vec<String> {
        let width = usize::from(self.size.0);
        match overlay {
            Overlay::Help => help::keys(width),
            Overlay::Missing => match self.moment() {
                Some(Ok(moment)) => help::missing(&moment.snapshot, width),
                _ => vec!["no window yet".to_owned()],
            },
        }
    }

    fn back(&mut self) {
        if !self.level().filter.is_empty() {
            self.level_mut().filter.clear();
        } else if self.levels.len() > 1 {
            self.levels.pop();
        }
    }

    fn enter(&mut self) {
        let (page, focus) = self.focused();
        let Some(table) = page.tables.get(focus) else { return };
        let cursor = self.level().cursor(focus, table);
        let Some(row) = table.rows.get(cursor) else { return };
        self.level_mut().place().follows = Some(row.who.clone());
        match views::into(&row.who) {
            Some(view) => self.open(view),
            None => self.answer = Some("this row has no detail view".to_owned()),
        }
    }

    fn open(&mut self, view: View) {
        /// From antagonist to antagonist one can go on for ever.
        const DEEPEST: usize = 32;
        if self.level().view == view {
            return;
        }
        if self.levels.len() == DEEPEST {
            self.levels.remove(1);
        }
        self.levels.push(Level::new(view));
    }

    /// As XenMon did: the first time CPU 0, then the next.
    fn next_cpu(&mut self, by: i64) {
        let Some(Ok(moment)) = self.moment() else { return };
        let mut cpus: Vec<CpuId> = moment.snapshot.cpus.iter().map(|row| row.cpu).collect();
        cpus.sort_unstable();
        let Ok(count) = i64::try_from(cpus.len()) else { return };
        if count == 0 {
            self.answer = Some("this window has no CPUs".to_owned());
            return;
        }
        let View::Cpu(now) = self.level().view else {
            return self.open(View::Cpu(cpus[0]));
        };
        let at = cpus.iter().position(|cpu| *cpu == now).and_then(|at| i64::try_from(at).ok());
        let next = at.map_or(0, |at| (at + by).rem_euclid(count));
        if let Some(cpu) = usize::try_from(next).ok().and_then(|next| cpus.get(next)) {
            self.level_mut().view = View::Cpu(*cpu);
        }
    }

    /// The page, and which of its lists keys move in.
    fn focused(&self) -> (Page, usize) {
        let page = self.page(&self.span());
        let focus = self.level().focus.min(page.tables.len().saturating_sub(1));
        (page, focus)
    }

    fn move_focus(&mut self, by: i64) {
        let (page, focus) = self.focused();
        let count = i64::try_from(page.tables.len()).unwrap_or(1).max(1);
        if count < 2 {
            self.answer = Some("this view has only one list".to_owned());
        }
        let next = (i64::try_from(focus).unwrap_or(0) + by).rem_euclid(count);
        self.level_mut().focus = usize::try_from(next).unwrap_or(0);
    }

    fn move_cursor(&mut self, by: isize) {
        let (page, focus) = self.focused();
        let Some(table) = page.tables.get(focus) else { return };
        let cursor = self.level().cursor(focus, table);
        let to = cursor.saturating_add_signed(by).min(table.rows.len().saturating_sub(1));
        // On top it stays on top, whoever that is.
        let who = table.rows.get(to).map(|row| row.who.clone());
        let level = self.level_mut();
        level.focus = focus;
        let place = level.place();
        place.at = to;
        place.follows = if to == 0 { None } else { who };
    }

    fn sort_by(&mut self, by: i64) {
        let (page, focus) = self.focused();
        let Some(table) = page.tables.get(focus) else { return };
        let area = usize::from(self.size.0);
        let shown: Vec<usize> =
            layout::columns(&table.columns, area).shown.iter().map(|(column, _)| *column).collect();
        let count = i64::try_from(shown.len()).unwrap_or(1).max(1);
        let at = shown.iter().position(|column| *column == table.sort.column).unwrap_or(0);
        let next = (i64::try_from(at).unwrap_or(0) + by).rem_euclid(count);
        let next = usize::try_from(next).ok().and_then(|next| shown.get(next));
        if let Some(column) = next {
            self.set_sort(focus, Sort { column: *column, is_reversed: false });
        }
    }

    fn reverse(&mut self) {
        let (page, focus) = self.focused();
        if let Some(table) = page.tables.get(focus) {
            let is_reversed = !table.sort.is_reversed;
            self.set_sort(focus, Sort { is_reversed, ..table.sort });
        }
    }

    fn set_sort(&mut self, focus: usize, sort: Sort) {
        let level = self.level_mut();
        level.focus = focus;
        level.place().sort = Some(sort);
    }

    fn pause(&mut self) {
        if self.is_log() {
            self.is_playing = !self.is_playing;
            let is_at_end = self.at.is_some_and(|at| at + 1 >= self.past.range().end);
            if self.is_playing && is_at_end {
                self.at = Some(0);
            }
        } else {
            self.at = if self.at.is_none() { self.number() } else { None };
        }
    }

    /// Goes through time and pauses.
    fn go(&mut self, by: i64) {
        self.is_playing = false;
        self.step(by);
    }

    fn step(&mut self, by: i64) {
        let (Some(at), range) = (self.number(), self.past.range()) else { return };
        let last = range.end.saturating_sub(1);
        let to = i128::from(at) + i128::from(by);
        if to < i128::from(range.start) {
            self.answer = Some("this is the oldest window".to_owned());
        } else if to > i128::from(last) {
            self.answer = Some("this is the newest window".to_owned());
        }
        let to = to.clamp(i128::from(range.start), i128::from(last));
        self.at = u64::try_from(to).ok();
    }

    fn go_to_newest(&mut self) {
        self.is_playing = false;
        self.at = if self.is_log() { self.past.range().end.checked_sub(1) } else { None };
    }
}
