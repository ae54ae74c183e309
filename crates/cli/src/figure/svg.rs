//! The figure as a drawing (SVG) for a document: white paper, nothing that moves.
//! Not the terminal's.

use anyhow::{Result, anyhow};
use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    coord::combinators::IntoLogRange,
    drawing::IntoDrawingArea,
    element::{Circle, PathElement},
    prelude::{DashedLineSeries, LineSeries, SVGBackend},
    style::{BLACK, Color, IntoFont, RGBColor, ShapeStyle, WHITE},
};

use super::Figure;
use crate::quantity::bytes;

/// Width and height, pixels.
const SIZE_PIXELS: (u32, u32) = (960, 540);

/// Told apart with every common kind of colour blindness (after Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(196, 78, 0),
    RGBColor(0, 121, 90),
    RGBColor(168, 50, 125),
    RGBColor(138, 109, 0),
    RGBColor(91, 91, 102),
];
const GRAY: RGBColor = RGBColor(90, 100, 114);

/// The drawing's text.
///
/// # Errors
/// When it cannot be drawn, which would be a mistake in here.
pub(crate) fn svg(figure: &Figure) -> Result<String> {
    let mut text = String::new();
    draw(figure, &mut text).map_err(|why| anyhow!("cannot draw the figure: {why}"))?;
    // For those who do not see it; right behind the head, as SVG 1.1, section 5.4, wants it.
    let title = format!("<title>{}</title>\n", escaped(&figure.title));
    if let Some(at) =
        text.find("<svg").and_then(|from| Some(from + text.get(from..)?.find('>')? + 1))
    {
        text.insert_str(at, &format!("\n{title}"));
    }
    Ok(text)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn draw(
    figure: &Figure,
    text: &mut String,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (low, high) = figure.sizes();
    let (step, ticks) = figure.ticks();
    let area = SVGBackend::with_string(text, SIZE_PIXELS).into_drawing_area();
    area.fill(&WHITE)?;
    let font = |size: i32| ("sans-serif", size).into_font();
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .caption(&figure.title, font(18))
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((low..high).log_scale().base(2.0), 0.0..step * f64::from(ticks))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRAY.mix(0.25))
        .light_line_style(WHITE)
        .x_labels(11)
        .y_labels(ticks as usize + 1)
        .x_label_formatter(&|size| bytes(size.round() as u64))
        .y_label_formatter(&|busbw| format!("{busbw}"))
        .x_desc("size")
        .y_desc("bus bandwidth (GB/s)")
        .label_style(font(13))
        .axis_desc_style(font(14))
        .draw()?;
    for limit in &figure.limits {
        let ends = [(low, limit.busbw), (high, limit.busbw)];
        chart
            .draw_series(DashedLineSeries::new(ends, 2, 4, GRAY.stroke_width(1)))?
            .label(&limit.name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], GRAY.stroke_width(1)));
    }
    for (number, curve) in figure.curves.iter().enumerate() {
        let colour = COLOURS.get(number % COLOURS.len()).copied().unwrap_or(GRAY);
        let style = colour.stroke_width(2);
        let drawn = match curve.in_place {
            true => chart.draw_series(DashedLineSeries::new(curve.points.clone(), 6, 4, style))?,
            false => chart.draw_series(LineSeries::new(curve.points.clone(), style))?,
        };
        drawn
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        let dot: ShapeStyle = if curve.in_place { colour.stroke_width(1) } else { colour.filled() };
        chart.draw_series(curve.points.iter().map(|point| Circle::new(*point, 3, dot)))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.2))
        .label_font(font(13))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Curve, Limit};

    #[test]
    fn a_drawing_is_xml_with_every_name() {
        let points = (3..=33).map(|power| (f64::from(power).exp2(), f64::from(power))).collect();
        let name = "<a> & \"b\" ☃".to_owned();
        let limit = Limit { name: "line rate 45.00 GB/s".to_owned(), busbw: 45.0 };
        let curves = vec![Curve { name: name.clone(), in_place: false, points }];
        let figure = Figure { title: name.clone(), curves, limits: vec![limit] };
        let text = svg(&figure).unwrap();
        let tree = roxmltree::Document::parse(&text).unwrap();
        let texts: Vec<&str> = tree
            .descendants()
            .filter(|node| node.is_text())
            .filter_map(|node| node.text())
            .collect();
        let holds = |what: &str| texts.iter().any(|text| text.trim() == what);
        for what in [name.as_str(), "line rate 45.00 GB/s", "8 B", "8 GiB", "bus bandwidth (GB/s)"]
        {
            assert!(holds(what), "{what}: {texts:?}");
        }
        assert_eq!(tree.descendants().filter(|node| node.has_tag_name("circle")).count(), 31);
    }
}
