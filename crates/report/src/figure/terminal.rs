//! The figure in a terminal: characters, and colours where people want them.
//! Not where it is printed (`show`).

use std::io;

use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Style},
    symbols::Marker,
    widgets::Widget,
};
use ratatui_widgets::chart::{Axis, Chart, Dataset, GraphType};

use super::Figure;
use busbw_core::quantity::bytes;

/// Width and height where there is no terminal to ask.
const DEFAULT_COLUMNS_AND_ROWS: (u16, u16) = (100, 24);

/// The colour of each curve, and its character for terminals without colours.
const CURVE_STYLES: [(Color, char); 6] = [
    (Color::Cyan, 'o'),
    (Color::Yellow, 'x'),
    (Color::Magenta, '+'),
    (Color::Green, '*'),
    (Color::Blue, '#'),
    (Color::Red, '@'),
];

/// Columns and rows to draw on.
pub fn screen() -> (u16, u16) {
    let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) else {
        return DEFAULT_COLUMNS_AND_ROWS;
    };
    if size.ws_col == 0 || size.ws_row == 0 {
        return DEFAULT_COLUMNS_AND_ROWS;
    }
    (size.ws_col.clamp(40, 400), size.ws_row.saturating_sub(4).clamp(12, 40))
}

/// The figure as lines of text.
pub fn terminal(figure: &Figure, (width, height): (u16, u16), colour: bool) -> String {
    let (low, high) = figure.sizes();
    let (low, high) = (low.log2(), high.log2());
    let (step, ticks) = figure.ticks();
    let top = step * f64::from(ticks);
    // One curve needs no telling apart.
    let plain = !colour && figure.curves.len() > 1;
    let look = |number: usize| {
        CURVE_STYLES.get(number % CURVE_STYLES.len()).copied().unwrap_or(CURVE_STYLES[0])
    };
    let scaled: Vec<Vec<(f64, f64)>> = figure
        .curves
        .iter()
        .map(|curve| curve.points.iter().map(|(size, busbw)| (size.log2(), *busbw)).collect())
        .collect();
    let levels: Vec<[(f64, f64); 2]> =
        figure.limits.iter().map(|limit| [(low, limit.busbw), (high, limit.busbw)]).collect();
    let mut sets: Vec<Dataset<'_>> = levels
        .iter()
        .map(|points| {
            let set = Dataset::default().data(points).graph_type(GraphType::Line);
            set.marker(Marker::Custom('-')).style(Style::new().fg(Color::DarkGray))
        })
        .collect();
    sets.extend(scaled.iter().enumerate().map(|(number, points)| {
        let (colour, character) = look(number);
        let set = Dataset::default().data(points).style(Style::new().fg(colour));
        match plain {
            true => set.marker(Marker::Custom(character)).graph_type(GraphType::Scatter),
            false => set.marker(Marker::Braille).graph_type(GraphType::Line),
        }
    }));
    let sizes = size_labels(low, high, width);
    // Multiples of a decimal fraction, without what binary numbers add to them.
    let speeds =
        (0..=ticks).map(|tick| format!("{}", (f64::from(tick) * step * 1e9).round() / 1e9));
    let chart = Chart::new(sets)
        .legend_position(None)
        .x_axis(Axis::default().bounds([low, high]).labels(sizes))
        .y_axis(Axis::default().bounds([0.0, top]).labels(speeds.collect::<Vec<_>>()));
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    chart.render(area, &mut buffer);

    let mut text = format!("{}\n{} over size\n", figure.title, figure.unit);
    text.push_str(&lines(&buffer, colour));
    for (number, curve) in figure.curves.iter().enumerate() {
        let (shade, character) = look(number);
        let mark = match (plain, colour) {
            (true, _) => character.to_string(),
            (false, true) => format!("\x1b[{}m──\x1b[0m", code(shade)),
            (false, false) => "──".to_owned(),
        };
        text.push_str(&format!("  {mark} {}", curve.name));
    }
    for limit in &figure.limits {
        text.push_str(&format!("  -- {}", limit.name));
    }
    text.push('\n');
    text
}

/// Sizes at equal distances: as many as have room, whole powers of two where they fit.
fn size_labels(low: f64, high: f64, width: u16) -> Vec<String> {
    let most = usize::from(width / 14).clamp(1, 10);
    let whole = |parts: &usize| (((high - low) / *parts as f64).fract()).abs() < 1e-9;
    let parts = (1..=most).rev().find(whole).unwrap_or(most);
    let at = |part: usize| low + (high - low) * part as f64 / parts as f64;
    (0..=parts).map(|part| bytes(at(part).exp2().round() as u64)).collect()
}

/// What is on the buffer, without blanks at the ends of lines.
fn lines(buffer: &Buffer, colour: bool) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut shade = Color::Reset;
        for x in 0..buffer.area.width {
            let Some(cell) = buffer.cell((x, y)) else { continue };
            if colour && cell.fg != shade && cell.symbol() != " " {
                shade = cell.fg;
                line.push_str(&format!("\x1b[{}m", code(shade)));
            }
            line.push_str(cell.symbol());
        }
        line.truncate(line.trim_end().len());
        if colour && shade != Color::Reset {
            line.push_str("\x1b[0m");
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The colour's code (ECMA-48, SGR).
fn code(colour: Color) -> u8 {
    match colour {
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Blue => 34,
        Color::Magenta => 35,
        Color::Cyan => 36,
        Color::DarkGray => 90,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Curve, Limit};

    fn figure() -> Figure {
        let points = |part: f64| {
            (3..=33)
                .map(|power| f64::from(power).exp2())
                .map(|size| (size, part * size / (size + 3e7)))
                .collect()
        };
        let curve = |name: &str, in_place, part| Curve {
            name: name.to_owned(),
            in_place,
            points: points(part),
        };
        Figure {
            unit: "GB/s",
            title: "all_reduce, 8 ranks".to_owned(),
            curves: vec![curve("out of place", false, 360.0), curve("in place", true, 300.0)],
            limits: vec![Limit { name: "line rate 450.0 GB/s".to_owned(), busbw: 450.0 }],
        }
    }

    #[test]
    fn without_colours() {
        insta::assert_snapshot!(terminal(&figure(), (80, 20), false));
    }

    #[test]
    fn colours_change_no_character_and_end() {
        let one = Figure { curves: figure().curves[..1].to_vec(), ..figure() };
        let coloured = terminal(&one, (80, 20), true);
        let mut bare = String::new();
        for (at, part) in coloured.split("\x1b[").enumerate() {
            bare.push_str(if at == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(bare, terminal(&one, (80, 20), false));
        for line in coloured.lines().filter(|line| line.contains('\x1b')) {
            assert!(line.rfind("\x1b[0m") == line.rfind("\x1b["), "{line:?}");
        }
    }

    #[test]
    fn any_width_holds() {
        for width in 40..=200 {
            let text = terminal(&figure(), (width, 12), false);
            // The title and the legend are as long as they are.
            let chart = text.lines().skip(2).take(12);
            assert!(chart.map(|line| line.chars().count()).max().unwrap() <= usize::from(width));
        }
    }
}
