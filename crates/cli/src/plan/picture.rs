//! Pictures of what is expected, as SVG: busbw and time by size with their ranges, busbw by number of failed parts.
//! Not the page of measured runs (`busbw_report`), and not the numbers.

use std::{fs, ops::Range, path::Path};

use anyhow::Result;
use busbw_core::quantity;
use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
};

use super::{figures, usage};

/// Pixels of a picture.
const SIZE: (u32, u32) = (800, 560);

/// Colours of curves, one after the other: blue, orange, green, purple (Okabe and Ito's, which all can tell apart).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

const LIMIT: RGBColor = RGBColor(179, 0, 0);

/// Share of a colour in a band of a range.
const BAND: f64 = 0.18;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What can be drawn.
pub(super) trait Picture {
    /// Draws it.
    fn draw(&self, area: &Area<'_>) -> Drawn;
}

/// A forecast by size.
pub(super) struct BySize {
    pub title: String,
    pub curves: Vec<Curve>,
}

/// One line with the band of its range.
pub(super) struct Curve {
    pub name: String,
    pub points: Vec<Point>,
    /// What it is compared with.
    pub line: Option<Line>,
}

/// What is expected of a size.
pub(super) struct Point {
    pub bytes: u64,
    pub busbw: f64,
    pub busbw_range: [f64; 2],
    pub time_us: f64,
    pub time_range_us: [f64; 2],
}

/// GB/s by size.
pub(super) struct Line {
    pub name: String,
    pub points: Vec<(u64, f64)>,
}

/// How many have failed, and busbw at the worst and at the best places.
pub(super) type AfterFailures = (usize, f64, f64);

/// busbw by number of failed parts.
pub(super) struct ByFailures {
    pub title: String,
    /// What fails, as the axis says it.
    pub axis: String,
    /// Each with its name.
    pub kinds: Vec<(String, Vec<AfterFailures>)>,
    /// GB/s.
    pub target: f64,
}

/// Writes a picture.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(file: &Path, picture: &dyn Picture) -> Result<()> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let drawn = area.fill(&WHITE).map_err(Into::into).and_then(|()| picture.draw(&area));
        drawn.map_err(|e| usage(format!("--svg: the picture cannot be drawn: {e}")))?;
        area.present().map_err(|e| usage(format!("--svg: the picture cannot be drawn: {e}")))?;
    }
    fs::write(file, text + "\n")
        .map_err(|e| usage(format!("--svg: cannot write {}: {e}", file.display())).into())
}

impl Picture for BySize {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let (above, below) = area.split_vertically(55.percent_height());
        let sizes = span(self.curves.iter().flat_map(|one| &one.points).map(|one| size(one.bytes)));
        let busbw = |one: &Curve| {
            let line = one.line.iter().flat_map(|line| &line.points).map(|(_, busbw)| *busbw);
            line.chain(one.points.iter().map(|one| one.busbw_range[1])).fold(0.0, f64::max)
        };
        let most = self.curves.iter().map(busbw).fold(0.0, f64::max);
        let mut chart = chart(&above, &self.title, sizes.clone(), 0.0..most * 1.06)?;
        mesh(&mut chart, "", "busbw, GB/s", &bytes_of, &gigabytes)?;
        for (one, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let of = |one: &Point| (size(one.bytes), one.busbw, one.busbw_range);
            curve(&mut chart, &one.name, *colour, one.points.iter().map(of))?;
            if let Some(line) = &one.line {
                let points = line.points.iter().map(|(bytes, busbw)| (size(*bytes), *busbw));
                dashed(
                    &mut chart,
                    &line.name,
                    if self.curves.len() > 1 { *colour } else { LIMIT },
                    points,
                )?;
            }
        }
        legend(&mut chart, SeriesLabelPosition::LowerRight)?;
        let log = |us: f64| us.max(1e-3).log10();
        let times =
            self.curves.iter().flat_map(|one| &one.points).flat_map(|one| one.time_range_us);
        let times = span(times.map(log));
        let mut chart = self::chart(&below, "", sizes, times.start.floor()..times.end.ceil())?;
        mesh(&mut chart, "size", "time", &bytes_of, &|us| quantity::time(10f64.powf(*us)))?;
        for (one, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            let of = |one: &Point| (size(one.bytes), log(one.time_us), one.time_range_us.map(log));
            curve(&mut chart, &one.name, *colour, one.points.iter().map(of))?;
        }
        Ok(())
    }
}

impl Picture for ByFailures {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let rows = || self.kinds.iter().flat_map(|(_, rows)| rows);
        let failed = span(rows().map(|(failed, ..)| place(*failed)));
        let most = rows().map(|(_, _, best)| *best).fold(self.target, f64::max);
        let mut chart = chart(area, &self.title, failed.clone(), 0.0..most * 1.06)?;
        mesh(&mut chart, &self.axis, "busbw, GB/s", &failures_of, &gigabytes)?;
        for ((name, rows), colour) in self.kinds.iter().zip(COLOURS.iter().cycle()) {
            let band =
                rows.iter().map(|(failed, worst, best)| (place(*failed), *worst, [*worst, *best]));
            curve(&mut chart, &format!("{name}, worst places; band: to the best"), *colour, band)?;
        }
        let ends = [(failed.start, self.target), (failed.end, self.target)];
        dashed(
            &mut chart,
            &format!("target, {} GB/s", quantity::rate(self.target)),
            LIMIT,
            ends.into_iter(),
        )?;
        legend(&mut chart, SeriesLabelPosition::LowerLeft)
    }
}

/// A rate of the axis, which has round ones.
fn gigabytes(busbw: &f64) -> String {
    figures::short(*busbw)
}

/// Sizes are apart by how often they double.
fn size(bytes: u64) -> f64 {
    (bytes.max(1) as f64).log2()
}

fn bytes_of(place: &f64) -> String {
    match place.fract() == 0.0 && (0.0..63.0).contains(place) {
        true => quantity::bytes(1 << *place as u64),
        false => String::new(),
    }
}

/// So are failures; none is one step before the first.
fn place(failed: usize) -> f64 {
    if failed == 0 { -1.0 } else { (failed as f64).log2() }
}

fn failures_of(place: &f64) -> String {
    match *place {
        -1.0 => "0".to_owned(),
        place if place.fract() == 0.0 && (0.0..40.0).contains(&place) => {
            (1u64 << place as u64).to_string()
        }
        _ => String::new(),
    }
}

/// From the least to the most; never empty.
fn span(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
    match high - low {
        wide if wide > 0.0 => low..high,
        _ if low.is_finite() => low - 0.5..low + 0.5,
        _ => 0.0..1.0,
    }
}

fn chart<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    x: Range<f64>,
    y: Range<f64>,
) -> std::result::Result<Chart<'a, 'b>, Box<dyn std::error::Error + Send + Sync>> {
    let mut builder = ChartBuilder::on(area);
    if !title.is_empty() {
        builder.caption(title, ("sans-serif", 17));
    }
    let drawn = builder.margin(10).margin_right(24).x_label_area_size(38).y_label_area_size(64);
    Ok(drawn.build_cartesian_2d(x, y)?)
}

fn mesh(
    chart: &mut Chart<'_, '_>,
    x: &str,
    y: &str,
    of_x: &dyn Fn(&f64) -> String,
    of_y: &dyn Fn(&f64) -> String,
) -> Drawn {
    // At most one a step of doubling.
    let steps = (chart.x_range().end - chart.x_range().start) as usize + 1;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(221, 221, 221))
        .x_desc(x)
        .y_desc(y)
        .x_labels(steps.clamp(2, 16))
        .y_labels(7)
        .x_label_formatter(&of_x)
        .y_label_formatter(&of_y)
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .draw()?;
    Ok(())
}

/// A line through (x, y), and the band of the range.
fn curve(
    chart: &mut Chart<'_, '_>,
    name: &str,
    colour: RGBColor,
    points: impl Iterator<Item = (f64, f64, [f64; 2])> + Clone,
) -> Drawn {
    let low = points.clone().map(|(x, _, range)| (x, range[0]));
    let high: Vec<(f64, f64)> = points.clone().map(|(x, _, range)| (x, range[1])).collect();
    let band: Vec<(f64, f64)> = low.chain(high.into_iter().rev()).collect();
    chart.draw_series([Polygon::new(band, colour.mix(BAND).filled())])?;
    let line =
        LineSeries::new(points.map(|(x, y, _)| (x, y)), colour.stroke_width(2)).point_size(2);
    chart
        .draw_series(line)?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    Ok(())
}

fn dashed(
    chart: &mut Chart<'_, '_>,
    name: &str,
    colour: RGBColor,
    points: impl Iterator<Item = (f64, f64)> + Clone,
) -> Drawn {
    chart
        .draw_series(DashedLineSeries::new(points, 6, 4, colour.stroke_width(1)))?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 8, y)], colour.stroke_width(1)));
    Ok(())
}

fn legend<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>, at: SeriesLabelPosition) -> Drawn {
    chart
        .configure_series_labels()
        .position(at)
        .background_style(WHITE.mix(0.85))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok(())
}
