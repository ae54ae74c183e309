//! The page: one file with its data, scripts and styles in it, that loads nothing.
//! Not what it shows (`data`); its words and shapes are in `templates/` and `assets/`.

use anyhow::{Context, Result};
use askama::Template;
use base64::{Engine, prelude::BASE64_STANDARD};
use embedded_files::deflated;
use miniz_oxide::inflate::decompress_to_vec_zlib;
use sha2::{Digest, Sha256};

use super::data::{Level, Report};

/// Apache ECharts, as web/build.sh makes it, in zlib's format.
const CHARTS: &[u8] = deflated!("src/assets/charts.js");
const STYLE: &str = include_str!("assets/page.css");
/// The page's own scripts, in the order in which they build on each other.
const SCRIPT: &str = concat!(
    include_str!("assets/format.js"),
    include_str!("assets/look.js"),
    include_str!("assets/sizes.js"),
    include_str!("assets/bars.js"),
    include_str!("assets/matrix.js"),
    include_str!("assets/tuning.js"),
    include_str!("assets/job.js"),
    include_str!("assets/rows.js"),
    include_str!("assets/page.js"),
);

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    report: &'a Report,
    policy: String,
    data: String,
    rows: usize,
    /// Whether the page is of several measurements, so that the answer says of which.
    several: bool,
    style: &'static str,
    charts: &'a str,
    script: &'static str,
}

impl Page<'_> {
    /// Whether the controls of charts stand above another chart already.
    fn controls_before(&self, bandwidth: &bool) -> bool {
        !*bandwidth && !self.report.drawn(&true).is_empty()
    }
}

/// The page of a report.
///
/// # Errors
/// The report's data cannot be written as JSON.
pub fn page(report: &Report) -> Result<String> {
    let charts = decompress_to_vec_zlib(CHARTS).ok().and_then(|text| String::from_utf8(text).ok());
    let charts =
        charts.context("the program's charting library is damaged: install busbw again")?;
    let data = serde_json::to_string(report).context("cannot write the report's data as JSON")?;
    let page = Page {
        report,
        policy: policy(&charts),
        // So that no text of the data can end the block that holds it.
        data: data.replace('<', "\\u003c"),
        rows: report.lines(),
        several: report.measured() > 1,
        style: STYLE,
        charts: &charts,
        script: SCRIPT,
    };
    let mut out = String::with_capacity(charts.len() + 2 * page.data.len() + (1 << 16));
    page.render_into(&mut out).context("cannot fill in the report's page")?;
    Ok(out)
}

/// Only these two scripts run and this style counts; nothing is fetched, sent or framed. Attributes `style`
/// are the charting library's.
fn policy(charts: &str) -> String {
    let hash = |text: &str| {
        format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text.as_bytes())))
    };
    format!(
        "default-src 'none'; script-src {} {}; style-src {}; style-src-attr 'unsafe-inline'; img-src data: blob:; \
         base-uri 'none'; form-action 'none'",
        hash(charts),
        hash(SCRIPT),
        hash(STYLE)
    )
}
