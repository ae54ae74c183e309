//! A page in the terminal that follows a job, or a line of JSON a second.
//! Not what it shows (`text`).

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use busbw_core::exit::{Exit, ExitError};
use busbw_watch::View;
use ratatui_core::{
    layout::Rect,
    terminal::{Frame, Terminal},
    text::Text,
    widgets::Widget,
};
use ratatui_crossterm::{
    CrosstermBackend,
    crossterm::{
        event::{self, Event, KeyCode, KeyModifiers},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use ratatui_widgets::paragraph::Paragraph;

use super::text;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Follows the job until `q` or Ctrl-C. `look` is called each second.
///
/// # Errors
/// The files cannot be read, or the terminal cannot be used.
pub(super) fn follow(json: bool, mut look: impl FnMut() -> Result<View>) -> Result<Exit> {
    if json {
        return lines(look);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let text = "the page needs a terminal: --once prints it once, --json a line each second";
        return Err(ExitError::new(Exit::Usage, text).into());
    }
    // What cannot be read is said before the screen is taken.
    let mut view = look()?;
    let screen = Screen::take()?;
    let mut terminal =
        Terminal::new(CrosstermBackend::new(io::stdout())).context("cannot use the terminal")?;
    let mut scroll = 0_u16;
    loop {
        let shown = page(&view);
        terminal.draw(|frame| draw(frame, &shown, scroll)).context("cannot draw the page")?;
        let until = Instant::now() + EVERY;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if !event::poll(left).context("cannot read the keyboard")? {
                break;
            }
            match event::read().context("cannot read the keyboard")? {
                Event::Key(key) => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(Exit::Ok),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        drop(screen);
                        return Ok(Exit::Interrupted);
                    }
                    KeyCode::Down | KeyCode::Char('j') => scroll = scroll.saturating_add(1),
                    KeyCode::Up | KeyCode::Char('k') => scroll = scroll.saturating_sub(1),
                    KeyCode::PageDown => scroll = scroll.saturating_add(20),
                    KeyCode::PageUp => scroll = scroll.saturating_sub(20),
                    _ => continue,
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            scroll = scroll.min(shown.lines().count().saturating_sub(1) as u16);
            terminal.draw(|frame| draw(frame, &shown, scroll)).context("cannot draw the page")?;
        }
        view = look()?;
    }
}

/// A line of JSON each second, until the reader goes away or Ctrl-C.
fn lines(mut look: impl FnMut() -> Result<View>) -> Result<Exit> {
    loop {
        let view = look()?;
        let mut out = io::stdout().lock();
        let line = serde_json::to_string(&view).context("cannot write the job as JSON")?;
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            return match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
                _ => Err(error).context("cannot write to stdout"),
            };
        }
        drop(out);
        std::thread::sleep(EVERY);
    }
}

fn page(view: &View) -> String {
    let mut bytes = Vec::new();
    // Writing into memory cannot fail.
    let _ = text::print(&mut bytes, view, false);
    let text = String::from_utf8_lossy(&bytes);
    format!("{}\n\nq ends; arrows and page keys move\n{text}", view.sentence())
}

fn draw(frame: &mut Frame<'_>, shown: &str, scroll: u16) {
    let area: Rect = frame.area();
    Paragraph::new(Text::raw(shown)).scroll((scroll, 0)).render(area, frame.buffer_mut());
}

/// The terminal in another state, given back when dropped.
struct Screen;

impl Screen {
    fn take() -> Result<Self> {
        enable_raw_mode().context("cannot use the terminal")?;
        let screen = Self;
        execute!(io::stdout(), EnterAlternateScreen).context("cannot use the terminal")?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
